// The partition as a checkpoint states it.
#pragma once

#include "models/core/json.h"
#include "planner/plan.h"

namespace zeroplan::runtime {

/// {ranks, threshold, groups: [{name, shard, tensors: [{name, shape, offset}]}]}: equal partitions give equal objects.
Json partition_json(const planner::Plan& plan);

}  // namespace zeroplan::runtime
