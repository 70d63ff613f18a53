#include "runtime/poison.h"

#include <algorithm>
#include <map>

#include "planner/happens_before.h"

namespace zeroplan::runtime {
namespace {

using planner::Access;
using planner::Plan;
using planner::Step;
using planner::Task;

bool overlap(const Access& a, const Access& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// An access within a run.
struct Use {
  std::size_t instance = 0;
  Access access;
};

std::vector<Access> accesses_of(const Task& task) {
  std::vector<Access> all = task.reads;
  for (const Access& write : task.writes) {
    if (std::find(all.begin(), all.end(), write) == all.end()) all.push_back(write);
  }
  return all;
}

/// Accesses of `step` (one instance of it in the run) that die.
class DeathFinder {
 public:
  DeathFinder(const Plan& plan, std::vector<const Step*> steps) : plan_(plan), run_(std::move(steps)) {
    for (std::size_t i = 0; i < run_.instances().size(); ++i) {
      for (const Access& access : accesses_of(*run_.instances()[i].task)) uses_[access.buffer].push_back({i, access});
    }
  }

  /// \param spanning  look at buffers that keep their value over micro-steps, instead of those that do not
  void find(std::uint32_t step_of_run, bool spanning, std::vector<std::vector<Access>>& result) const {
    const Step& step = *run_.steps()[step_of_run];
    for (std::size_t i = 0; i < run_.instances().size(); ++i) {
      if (run_.instances()[i].step != step_of_run) continue;
      const Task& task = *run_.instances()[i].task;
      const auto position = static_cast<std::size_t>(&task - step.tasks.data());
      for (const Access& access : accesses_of(task)) {
        const planner::Buffer& buffer = plan_.buffers[access.buffer];
        if (buffer.always || buffer.spans_cycle != spanning) continue;
        if (is_last(i, access)) result[position].push_back(access);
      }
    }
  }

 private:
  bool is_last(std::size_t instance, const Access& access) const {
    return std::all_of(uses_.at(access.buffer).begin(), uses_.at(access.buffer).end(), [&](const Use& use) {
      return use.instance == instance || !overlap(use.access, access) || run_.ordered(use.instance, instance);
    });
  }

  const Plan& plan_;
  planner::TaskRun run_;
  std::map<planner::BufferId, std::vector<Use>> uses_;
};

}  // namespace

std::vector<std::vector<std::vector<Access>>> dying_bytes(const Plan& plan) {
  std::vector<std::vector<std::vector<Access>>> result;
  std::vector<const Step*> cycle;
  std::size_t last_of_cycle = 0;
  for (const Step& step : plan.steps) {
    auto& dying = result.emplace_back(step.tasks.size());
    DeathFinder(plan, {&step}).find(0, false, dying);
    if (!step.is_training()) continue;
    cycle.push_back(&step);
    last_of_cycle = result.size() - 1;
  }
  DeathFinder(plan, cycle).find(static_cast<std::uint32_t>(cycle.size() - 1), true, result[last_of_cycle]);
  return result;
}

}  // namespace zeroplan::runtime
