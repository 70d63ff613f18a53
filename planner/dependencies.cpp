#include "planner/dependencies.h"

#include <algorithm>

#include "planner/happens_before.h"

namespace zeroplan::planner {
namespace {

/// Last users of a buffer, as instances of the run.
struct BufferUsers {
  std::int64_t writer = -1;
  std::vector<std::size_t> readers;  ///< since the last write
};

/// Walks a run in its order and adds the waits that are missing.
class DependencyWalk {
 public:
  DependencyWalk(Plan& plan, const std::vector<std::size_t>& steps) : plan_(plan), users_(plan.buffers.size()) {
    std::size_t previous_begin = 0;
    for (const std::size_t step : steps) {
      const std::size_t begin = tasks_.size();
      for (Task& task : plan_.steps[step].tasks) visit(task, begin, previous_begin);
      previous_begin = begin;
    }
  }

 private:
  void visit(Task& task, std::size_t step_begin, std::size_t previous_begin) {
    const std::size_t self = tasks_.size();
    const auto lane = static_cast<std::size_t>(task.lane);
    LaneClock clock = lane_clock_[lane];
    const auto merge = [&](std::size_t other) {
      for (std::size_t l = 0; l < kLaneCount; ++l) clock[l] = std::max(clock[l], clocks_[other][l]);
    };
    for (const TaskId wait : task.waits) merge(step_begin + (wait - tasks_of(task, step_begin, self)));
    for (const std::string& key : task.waits_previous) {
      for (std::size_t i = previous_begin; i < step_begin; ++i) {
        if (tasks_[i]->key == key) merge(i);
      }
    }
    const auto need = [&](std::size_t other) {
      if (other == self || clock[static_cast<std::size_t>(tasks_[other]->lane)] >= places_[other]) return;
      if (other >= step_begin) {
        task.waits.push_back(tasks_[other]->id);
      } else {
        ZP_CHECK(other >= previous_begin);
        task.waits_previous.push_back(tasks_[other]->key);
      }
      merge(other);
    };
    for_each_need(task, need);
    clock[lane] = ++lane_length_[lane];
    lane_clock_[lane] = clock;
    tasks_.push_back(&task);
    clocks_.push_back(clock);
    places_.push_back(clock[lane]);
    record(task, self);
  }

  /// Id of the step's first task: ids of a step are consecutive.
  TaskId tasks_of(const Task& task, std::size_t step_begin, std::size_t self) const {
    return task.id - static_cast<TaskId>(self - step_begin);
  }

  template <class Need>
  void for_each_need(const Task& task, Need need) {
    // Latest first: it often orders the earlier ones too.
    needed_.clear();
    for (const Access& access : task.reads) add_writer(access);
    for (const Access& access : task.writes) {
      add_writer(access);
      const auto& readers = users_[access.buffer].readers;
      needed_.insert(needed_.end(), readers.begin(), readers.end());
    }
    std::sort(needed_.begin(), needed_.end(), std::greater<>());
    for (const std::size_t other : needed_) need(other);
  }

  void add_writer(const Access& access) {
    const std::int64_t writer = users_[access.buffer].writer;
    if (writer >= 0) needed_.push_back(static_cast<std::size_t>(writer));
  }

  void record(const Task& task, std::size_t self) {
    for (const Access& access : task.reads) users_[access.buffer].readers.push_back(self);
    for (const Access& access : task.writes) {
      users_[access.buffer].writer = static_cast<std::int64_t>(self);
      users_[access.buffer].readers.clear();
    }
  }

  Plan& plan_;
  std::vector<BufferUsers> users_;
  std::vector<const Task*> tasks_;
  std::vector<LaneClock> clocks_;
  std::vector<std::uint32_t> places_;
  std::array<LaneClock, kLaneCount> lane_clock_{};
  LaneClock lane_length_{};
  std::vector<std::size_t> needed_;
};

void sort_unique(auto& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

void add_dependency_waits(Plan& plan) {
  for (const auto& run : run_sequences(plan)) {
    std::vector<std::size_t> steps;
    for (const Step* step : run) steps.push_back(static_cast<std::size_t>(step - plan.steps.data()));
    DependencyWalk(plan, steps);
  }
  for (Step& step : plan.steps) {
    for (Task& task : step.tasks) {
      sort_unique(task.waits);
      sort_unique(task.waits_previous);
    }
  }
}

}  // namespace zeroplan::planner
