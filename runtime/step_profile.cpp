#include "runtime/step_profile.h"

#include <algorithm>

namespace zeroplan::runtime {

std::vector<StepProfile::Row> StepProfile::rows() const {
  std::vector<Row> rows;
  const auto append = [&](std::string_view name, const Entry& entry) {
    const std::uint64_t calls = entry.calls.load(std::memory_order_relaxed);
    const auto nanoseconds = static_cast<double>(entry.nanoseconds.load(std::memory_order_relaxed));
    if (calls > 0) rows.push_back({std::string(name), calls, Seconds(1e-9 * nanoseconds)});
  };
  for (std::size_t i = 0; i < ops_.size(); ++i) append(models::to_string(static_cast<models::OpKind>(i)), ops_[i]);
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    append(planner::name_of(static_cast<planner::TaskKind>(i)), tasks_[i]);
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time > b.time; });
  return rows;
}

}  // namespace zeroplan::runtime
