// Times of the CPU kernels on grids of extents that know no model. Main functions: measure_gemm, measure_ops.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/machine.h"
#include "runtime/calibration/rank_team.h"
#include "runtime/calibration/tensor_buffer.h"

namespace zeroplan::runtime {

/// Called before each measurement with what it is; may be empty.
using Progress = std::function<void(const std::string& what)>;

/// Matrix products of the forms that linear layers need (y = x W^T, d_x = d_y W, d_W = d_y^T x), their times averaged;
/// m, n and k on a grid. \param most_flops  larger products are left out
std::vector<planner::GemmPoint> measure_gemm(const RankTeam& team, DType dtype, Flops most_flops,
                                             const Progress& progress);

/// All other kernels; names and extents as in planner/cost_model.h. \param most_work  larger extents are left out
std::vector<planner::OpPoint> measure_ops(const RankTeam& team, DType dtype, std::uint64_t most_work,
                                          const Progress& progress);

}  // namespace zeroplan::runtime
