// DeepSpeed's elastic batch sizes (versions 0.1 and 0.2): one batch size that divides over many rank counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace zeroplan::planner::deepspeed {

struct Workspace;

/// The batch with the most valid rank counts.
struct ElasticBatch {
  std::uint64_t batch = 0;
  std::vector<std::uint64_t> valid_ranks;  ///< ascending
};

/// \param micro_sizes  each at least 1 and at most `most`
ElasticBatch best_elastic_batch(const std::vector<std::uint64_t>& micro_sizes, std::uint64_t most,
                                std::uint64_t min_ranks, std::uint64_t max_ranks, bool prefer_larger);

/// Resolves the batch of a file whose elasticity section is enabled, with its findings. False if it is not.
bool apply_elasticity(Workspace& work);

}  // namespace zeroplan::planner::deepspeed
