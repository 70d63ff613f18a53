#include "planner/lifetimes.h"

#include <algorithm>
#include <limits>

namespace zeroplan::planner {
namespace {

constexpr LaneClock kEndOfTime = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};

/// Collects the users of one stay.
void add_user(Life& life, const TaskRun& run, std::size_t instance, bool is_first) {
  const auto lane = static_cast<std::size_t>(run.instances()[instance].task->lane);
  const std::uint32_t place = run.place(instance);
  const bool first_on_lane = life.last[lane] == 0;
  life.last[lane] = place;
  if (first_on_lane) {
    LaneClock before = run.clock(instance);
    before[lane] = place - 1;
    for (std::size_t l = 0; l < kLaneCount; ++l)
      life.entry[l] = is_first ? before[l] : std::min(life.entry[l], before[l]);
  }
  life.last_position = static_cast<std::uint32_t>(instance);
}

/// Which pairs of a growing set of indices are marked; marking twice is free.
class PairMarks {
 public:
  explicit PairMarks(std::size_t most) : most_(most), marks_(most * most, false) {}

  void mark(std::uint32_t i, std::uint32_t j) {
    marks_[i * most_ + j] = true;
    marks_[j * most_ + i] = true;
  }

  /// Partners of each of the first `count` indices, ascending.
  std::vector<std::vector<std::uint32_t>> lists(std::size_t count) const {
    std::vector<std::vector<std::uint32_t>> result(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::uint32_t j = 0; j < count; ++j) {
        if (marks_[i * most_ + j]) result[i].push_back(j);
      }
    }
    return result;
  }

 private:
  std::size_t most_;
  std::vector<bool> marks_;
};

/// The earliest that any task from a position on is sure of: after it, whatever ended before is out of reach for all of
/// them.
std::vector<LaneClock> suffix_entries(const std::vector<Life>& lives) {
  std::vector<LaneClock> suffix(lives.size() + 1, kEndOfTime);
  for (std::size_t i = lives.size(); i-- > 0;) {
    for (std::size_t l = 0; l < kLaneCount; ++l) suffix[i][l] = std::min(suffix[i + 1][l], lives[i].entry[l]);
  }
  return suffix;
}

bool all_reached(const LaneClock& last, const LaneClock& entry) {
  for (std::size_t l = 0; l < kLaneCount; ++l) {
    if (last[l] > entry[l]) return false;
  }
  return true;
}

}  // namespace

std::vector<Life> lives_in(const Plan& plan, const TaskRun& run) {
  std::vector<Life> lives;
  std::vector<std::int64_t> current(plan.buffers.size(), -1);
  std::vector<std::uint32_t> period(plan.buffers.size(), 0);
  std::uint32_t cycle = 0;
  std::uint32_t step = 0;
  const auto use = [&](BufferId id, std::size_t instance) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.always) return;
    const std::uint32_t now = buffer.spans_cycle ? cycle : step;
    const bool is_new = current[id] < 0 || period[id] != now;
    if (is_new) {
      current[id] = static_cast<std::int64_t>(lives.size());
      period[id] = now;
      lives.emplace_back();
      lives.back().buffer = id;
      lives.back().first_position = static_cast<std::uint32_t>(instance);
    }
    add_user(lives[static_cast<std::size_t>(current[id])], run, instance, is_new);
  };
  for (std::size_t i = 0; i < run.instances().size(); ++i) {
    const TaskInstance& instance = run.instances()[i];
    if (instance.step != step) {
      step = instance.step;
      const std::string& name = run.steps()[step]->name;
      if (name == "only" || name == "first") ++cycle;
    }
    for (const Access& access : instance.task->reads) use(access.buffer, i);
    for (const Access& access : instance.task->writes) use(access.buffer, i);
  }
  return lives;
}

ConflictGraph find_conflicts(const Plan& plan, const std::vector<TaskRun>& runs, Tier tier) {
  ConflictGraph graph;
  std::vector<std::uint32_t> index(plan.buffers.size(), kNoIndex);
  PairMarks marks(plan.buffers.size());
  std::uint32_t base = 0;
  for (const TaskRun& run : runs) {
    std::vector<Life> lives = lives_in(plan, run);
    std::erase_if(lives, [&](const Life& life) {
      const Buffer& buffer = plan.buffers[life.buffer];
      return buffer.tier != tier || buffer.bytes == Bytes();
    });
    for (const Life& life : lives) {
      if (index[life.buffer] == kNoIndex) {
        index[life.buffer] = static_cast<std::uint32_t>(graph.buffers.size());
        graph.buffers.push_back(life.buffer);
      }
      graph.stays.push_back({index[life.buffer], base + life.first_position, base + life.last_position});
    }
    const auto suffix = suffix_entries(lives);
    for (std::size_t a = 0; a < lives.size(); ++a) {
      for (std::size_t b = a + 1; b < lives.size() && !all_reached(lives[a].last, suffix[b]); ++b) {
        if (lives[a].buffer == lives[b].buffer || ends_before(lives[a], lives[b]) || ends_before(lives[b], lives[a]))
          continue;
        marks.mark(index[lives[a].buffer], index[lives[b].buffer]);
      }
    }
    base += static_cast<std::uint32_t>(run.instances().size());
  }
  graph.conflicts = marks.lists(graph.buffers.size());
  return graph;
}

void set_live_ranges(Plan& plan) {
  std::vector<bool> used(plan.buffers.size(), false);
  const auto use = [&](BufferId id, TaskId task) {
    Buffer& buffer = plan.buffers[id];
    if (!used[id]) buffer.first = task;
    buffer.last = task;
    used[id] = true;
  };
  for (const Step& step : plan.steps) {
    for (const Task& task : step.tasks) {
      for (const Access& access : task.reads) use(access.buffer, task.id);
      for (const Access& access : task.writes) use(access.buffer, task.id);
    }
  }
}

}  // namespace zeroplan::planner
