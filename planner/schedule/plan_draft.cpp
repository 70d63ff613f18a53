#include "planner/schedule/plan_draft.h"

#include <algorithm>

namespace zeroplan::planner {

BufferId PlanDraft::add_buffer(const std::string& name, Bytes bytes, bool is_always) {
  Buffer buffer;
  buffer.id = static_cast<BufferId>(plan_.buffers.size());
  buffer.name = name;
  buffer.bytes = bytes;
  buffer.always = is_always;
  plan_.buffers.push_back(std::move(buffer));
  return plan_.buffers.back().id;
}

BufferId PlanDraft::on_host(const std::string& name, Bytes bytes, bool is_always) {
  const BufferId id = add_buffer(name, bytes, is_always);
  plan_.buffers[id].tier = Tier::kHost;
  return id;
}

BufferId PlanDraft::spanning_cycle(const std::string& name, Bytes bytes) {
  const BufferId id = add_buffer(name, bytes, false);
  plan_.buffers[id].spans_cycle = true;
  return id;
}

void PlanDraft::begin_step(const std::string& name) {
  plan_.steps.push_back({name, {}});
}

Task& PlanDraft::task(const std::string& key, TaskKind kind, Lane lane) {
  Task task;
  task.id = next_task_++;
  task.key = key;
  task.kind = kind;
  task.lane = lane;
  plan_.steps.back().tasks.push_back(std::move(task));
  return plan_.steps.back().tasks.back();
}

void PlanDraft::reads(Task& task, BufferId buffer) const {
  if (buffer != kNoBuffer) add(task.reads, {buffer, Bytes(), plan_.buffers[buffer].bytes});
}

void PlanDraft::writes(Task& task, BufferId buffer) const {
  if (buffer != kNoBuffer) add(task.writes, {buffer, Bytes(), plan_.buffers[buffer].bytes});
}

void PlanDraft::add(std::vector<Access>& accesses, const Access& access) {
  if (std::find(accesses.begin(), accesses.end(), access) == accesses.end()) accesses.push_back(access);
}

}  // namespace zeroplan::planner
