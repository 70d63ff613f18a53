// Plays the accesses of a run on the addresses of one tier. Main type: MemorySweep.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/happens_before.h"

namespace zeroplan::planner {

/// Finds accesses to the same bytes in no order, reads of what nobody or another buffer wrote.
class MemorySweep {
 public:
  /// \param is_init  true: always-live buffers hold nothing yet
  MemorySweep(const Plan& plan, const TaskRun& run, Tier tier, bool is_init, std::vector<std::string>& problems);

  void play();

 private:
  static constexpr std::int64_t kNobody = -1;
  static constexpr std::int64_t kBefore = -2;  ///< written before the run began

  /// Bytes from its key to the next cell's key: who wrote them last, as which buffer, and who read them since.
  struct Cell {
    std::int64_t writer = kNobody;
    BufferId buffer = kNoBuffer;
    std::array<std::int64_t, kLaneCount> reader{};  ///< per lane the last reader since, or kNobody
  };

  using Cells = std::map<std::uint64_t, Cell>;

  Cells::iterator cut(std::uint64_t address);
  void read(std::size_t instance, const Access& access);
  void write(std::size_t instance, const Access& access);
  void report(std::size_t instance, const std::string& text);
  std::string called(std::int64_t instance) const;

  const Plan& plan_;
  const TaskRun& run_;
  Tier tier_;
  std::vector<std::string>& problems_;
  Cells cells_;
};

/// More problems than these are not listed.
constexpr std::size_t kMostProblems = 100;

}  // namespace zeroplan::planner
