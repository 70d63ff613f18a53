// The order between the tasks of a plan (docs/plan-format.md): lane order, waits, transitively, over unrolled steps.
// Main types: TaskGraph (Boost.Graph), TaskInstance, TaskRun. Depends on planner/plan.
#pragma once

#include <cstdint>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include "planner/plan.h"

namespace zeroplan::planner {

/// One vertex a task instance, numbered in an order that lanes and waits allow; an edge from each task to those that
/// wait for it.
using TaskGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

/// A task within a run.
struct TaskInstance {
  std::uint32_t step = 0;  ///< position of its step in the run
  const Task* task = nullptr;
};

/// How many tasks of each lane have ended.
using LaneClock = std::array<std::uint32_t, kLaneCount>;

/// Steps that follow one another with no barrier between them and none before the first but the end of all lanes.
class TaskRun {
 public:
  /// \throws Error{kInvalidInput} if a task waits for one that does not come before it
  explicit TaskRun(std::vector<const Step*> steps);

  const std::vector<const Step*>& steps() const { return steps_; }
  const std::vector<TaskInstance>& instances() const { return instances_; }
  const TaskGraph& graph() const { return graph_; }
  /// Position of an instance on its lane, from 1.
  std::uint32_t place(std::size_t instance) const { return places_[instance]; }
  /// Per lane, the tasks that happen before this one or are it.
  const LaneClock& clock(std::size_t instance) const { return clocks_[instance]; }
  /// a happens before b, or is b.
  bool ordered(std::size_t a, std::size_t b) const {
    return clocks_[b][static_cast<std::size_t>(instances_[a].task->lane)] >= places_[a];
  }

 private:
  void add_step(std::uint32_t number);
  void compute_clocks();

  std::vector<const Step*> steps_;
  std::vector<TaskInstance> instances_;
  std::vector<std::uint32_t> places_;
  std::vector<LaneClock> clocks_;
  TaskGraph graph_;
  std::array<std::int64_t, kLaneCount> last_on_lane_{};
  std::size_t previous_begin_ = 0;  ///< instances of the step before
  std::size_t previous_end_ = 0;
};

/// The runs that decide about a plan's memory: each phase alone, and the training cycle twice, with two middle steps in
/// a row where there are several.
std::vector<std::vector<const Step*>> run_sequences(const Plan& plan);

}  // namespace zeroplan::planner
