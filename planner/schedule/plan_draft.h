// A plan while its buffers and tasks are written down: no offsets yet, and only the waits that bound memory or
// prefetch. Main type: PlanDraft. Depends on planner/plan.
#pragma once

#include <string>

#include "planner/plan.h"

namespace zeroplan::planner {

/// Adds buffers, steps and tasks to a Plan. Ids are given in the order of the calls.
class PlanDraft {
 public:
  explicit PlanDraft(Plan& plan) : plan_(plan) {}

  Plan& plan() { return plan_; }
  const Plan& plan() const { return plan_; }

  /// Keeps its value over steps and phases.
  BufferId always(const std::string& name, Bytes bytes) { return add_buffer(name, bytes, true); }
  BufferId buffer(const std::string& name, Bytes bytes) { return add_buffer(name, bytes, false); }
  /// On the host: always there, or only while tasks use it.
  BufferId on_host(const std::string& name, Bytes bytes, bool is_always);
  /// Carries values from one micro-step to the next.
  BufferId spanning_cycle(const std::string& name, Bytes bytes);

  void begin_step(const std::string& name);
  /// A task of the current step, after all tasks added so far. The reference is valid until the next call.
  Task& task(const std::string& key, TaskKind kind, Lane lane);

  /// All of a buffer; kNoBuffer is no access.
  void reads(Task& task, BufferId buffer) const;
  void writes(Task& task, BufferId buffer) const;
  void reads(Task& task, BufferId buffer, Bytes offset, Bytes bytes) const { add(task.reads, {buffer, offset, bytes}); }
  void writes(Task& task, BufferId buffer, Bytes offset, Bytes bytes) const {
    add(task.writes, {buffer, offset, bytes});
  }

 private:
  BufferId add_buffer(const std::string& name, Bytes bytes, bool is_always);
  static void add(std::vector<Access>& accesses, const Access& access);

  Plan& plan_;
  TaskId next_task_ = 0;
};

}  // namespace zeroplan::planner
