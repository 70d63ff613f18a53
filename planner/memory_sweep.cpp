#include "planner/memory_sweep.h"

#include <fmt/format.h>

namespace zeroplan::planner {

MemorySweep::MemorySweep(const Plan& plan, const TaskRun& run, Tier tier, bool is_init,
                         std::vector<std::string>& problems)
    : plan_(plan), run_(run), tier_(tier), problems_(problems) {
  Cell empty;
  empty.reader.fill(kNobody);
  cells_.emplace(0, empty);
  for (const Buffer& buffer : plan.buffers) {
    if (is_init || !buffer.always || buffer.tier != tier || buffer.bytes == Bytes()) continue;
    const auto begin = cut(buffer.offset.count());
    const auto end = cut((buffer.offset + buffer.bytes).count());
    for (auto it = begin; it != end; ++it) {
      it->second.writer = kBefore;
      it->second.buffer = buffer.id;
    }
  }
}

void MemorySweep::play() {
  for (std::size_t i = 0; i < run_.instances().size() && problems_.size() < kMostProblems; ++i) {
    const Task& task = *run_.instances()[i].task;
    for (const Access& access : task.reads) {
      if (plan_.buffers[access.buffer].tier == tier_) read(i, access);
    }
    for (const Access& access : task.writes) {
      if (plan_.buffers[access.buffer].tier == tier_) write(i, access);
    }
  }
}

MemorySweep::Cells::iterator MemorySweep::cut(std::uint64_t address) {
  auto it = cells_.upper_bound(address);
  --it;
  if (it->first == address) return it;
  return cells_.emplace_hint(std::next(it), address, it->second);
}

void MemorySweep::read(std::size_t instance, const Access& access) {
  if (access.bytes == Bytes()) return;
  const std::uint64_t low = (plan_.buffers[access.buffer].offset + access.offset).count();
  const auto begin = cut(low);
  const auto end = cut(low + access.bytes.count());
  const auto lane = static_cast<std::size_t>(run_.instances()[instance].task->lane);
  for (auto it = begin; it != end; ++it) {
    Cell& cell = it->second;
    if (cell.writer == kNobody) {
      report(instance, fmt::format("reads bytes of buffer {} that nothing wrote", access.buffer));
    } else if (cell.buffer != access.buffer) {
      report(instance,
             fmt::format("reads buffer {} where {} wrote buffer {}", access.buffer, called(cell.writer), cell.buffer));
    } else if (cell.writer >= 0 && !run_.ordered(static_cast<std::size_t>(cell.writer), instance)) {
      report(instance, fmt::format("and {} use buffer {} in no order", called(cell.writer), access.buffer));
    }
    cell.reader[lane] = static_cast<std::int64_t>(instance);
  }
}

void MemorySweep::write(std::size_t instance, const Access& access) {
  if (access.bytes == Bytes()) return;
  const std::uint64_t low = (plan_.buffers[access.buffer].offset + access.offset).count();
  const auto begin = cut(low);
  const auto end = cut(low + access.bytes.count());
  const auto check = [&](std::int64_t other, const Cell& cell) {
    if (other < 0) return;
    const auto o = static_cast<std::size_t>(other);
    const bool same_task = o == instance;
    if ((same_task && cell.buffer != access.buffer) || (!same_task && !run_.ordered(o, instance))) {
      report(instance, fmt::format("and {} use the same bytes, as buffers {} and {}, in no order", called(other),
                                   access.buffer, cell.buffer));
    }
  };
  for (auto it = begin; it != end; ++it) {
    check(it->second.writer, it->second);
    for (const std::int64_t reader : it->second.reader) check(reader, it->second);
  }
  Cell cell;
  cell.writer = static_cast<std::int64_t>(instance);
  cell.buffer = access.buffer;
  cell.reader.fill(kNobody);
  const auto after = cells_.erase(begin, end);
  cells_.emplace_hint(after, low, cell);
}

void MemorySweep::report(std::size_t instance, const std::string& text) {
  const TaskInstance& i = run_.instances()[instance];
  if (problems_.size() < kMostProblems) {
    problems_.push_back(
        fmt::format("step {}, task {} ({}) {}", run_.steps()[i.step]->name, i.task->id, i.task->key, text));
  }
}

std::string MemorySweep::called(std::int64_t instance) const {
  if (instance < 0) return "the start";
  const TaskInstance& i = run_.instances()[static_cast<std::size_t>(instance)];
  return fmt::format("task {} of step {}", i.task->id, run_.steps()[i.step]->name);
}

}  // namespace zeroplan::planner
