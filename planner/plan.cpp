#include "planner/plan.h"

namespace zeroplan::planner {

std::uint64_t CollectiveWork::elements(const Partition& partition) const {
  std::uint64_t sum = 0;
  for (const ShardPiece& piece : pieces) sum += (piece.end - piece.begin) * partition.ranks;
  return sum;
}

const Step* Plan::find_step(std::string_view name) const {
  for (const Step& step : steps) {
    if (step.name == name) return &step;
  }
  return nullptr;
}

}  // namespace zeroplan::planner
