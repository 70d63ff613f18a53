#include "planner/batches.h"

#include <algorithm>

namespace zeroplan::planner {

std::vector<Batch> batches_of(std::uint64_t per_rank, std::size_t most) {
  constexpr std::uint64_t kLargestMicroBatch = 65'536;
  std::vector<Batch> batches;
  std::uint64_t next = 1;
  for (std::uint64_t micro = 1; micro <= std::min(per_rank, kLargestMicroBatch) && batches.size() < most; ++micro) {
    if (micro < next || per_rank % micro != 0) continue;
    batches.push_back({micro, per_rank / micro});
    next = micro + (micro + 1) / 2;
  }
  return batches;
}

}  // namespace zeroplan::planner
