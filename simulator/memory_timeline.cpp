#include "simulator/memory_timeline.h"

#include <algorithm>
#include <limits>

namespace zeroplan::simulator {
namespace {

using planner::Buffer;
using planner::BufferId;
using planner::Plan;
using planner::Task;

/// When a buffer holds values, once.
struct Stay {
  BufferId buffer = planner::kNoBuffer;
  double start = std::numeric_limits<double>::infinity();
  double end = 0;
};

/// The users of each buffer of a tier in one step: positions, by buffer.
struct StepUsers {
  std::vector<BufferId> buffers;
  std::vector<std::vector<std::uint32_t>> users;  ///< per entry of `buffers`
};

StepUsers users_in(const Plan& plan, const planner::Step& step, planner::Tier tier) {
  constexpr std::uint32_t kNone = 0xffffffffu;
  StepUsers result;
  std::vector<std::uint32_t> index(plan.buffers.size(), kNone);
  for (std::uint32_t position = 0; position < step.tasks.size(); ++position) {
    const Task& task = step.tasks[position];
    for (const auto* accesses : {&task.reads, &task.writes}) {
      for (const planner::Access& access : *accesses) {
        const Buffer& buffer = plan.buffers.at(access.buffer);
        if (buffer.tier != tier || buffer.always) continue;
        if (index[buffer.id] == kNone) {
          index[buffer.id] = static_cast<std::uint32_t>(result.buffers.size());
          result.buffers.push_back(buffer.id);
          result.users.emplace_back();
        }
        auto& users = result.users[index[buffer.id]];
        if (users.empty() || users.back() != position) users.push_back(position);
      }
    }
  }
  return result;
}

std::vector<Stay> stays_of(const Plan& plan, const StepGraph& graph, const std::vector<InstanceTimes>& instances,
                           planner::Tier tier) {
  std::vector<StepUsers> users;
  for (const SimulatedStep& step : graph.steps) users.push_back(users_in(plan, plan.steps[step.step], tier));
  std::vector<Stay> stays;
  std::vector<Stay> spanning(plan.buffers.size());  // of the current cycle
  const auto flush = [&] {
    for (Stay& stay : spanning) {
      if (stay.buffer != planner::kNoBuffer) stays.push_back(std::exchange(stay, Stay{}));
    }
  };
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (i % graph.cycle.size() == 0) flush();
    const StepUsers& step = users[instances[i].step];
    for (std::size_t b = 0; b < step.buffers.size(); ++b) {
      Stay stay{step.buffers[b]};
      for (const std::uint32_t position : step.users[b]) {
        stay.start = std::min(stay.start, instances[i].start[position]);
        stay.end = std::max(stay.end, instances[i].end[position]);
      }
      if (!plan.buffers[stay.buffer].spans_cycle) {
        stays.push_back(stay);
        continue;
      }
      Stay& whole = spanning[stay.buffer];
      whole.buffer = stay.buffer;
      whole.start = std::min(whole.start, stay.start);
      whole.end = std::max(whole.end, stay.end);
    }
  }
  flush();
  return stays;
}

}  // namespace

MemoryTimeline memory_timeline(const Plan& plan, const StepGraph& graph, const std::vector<InstanceTimes>& instances,
                               planner::Tier tier, bool keeps_samples, double origin_s) {
  MemoryTimeline result;
  result.record.planned = plan.tier(tier).arena;
  std::uint64_t live = 0, top = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.tier != tier || !buffer.always) continue;
    live += buffer.bytes.count();
    top = std::max(top, (buffer.offset + buffer.bytes).count());
  }
  const std::vector<Stay> stays = stays_of(plan, graph, instances, tier);
  struct Change {
    double at;
    bool begins;
    std::uint32_t stay;
  };
  std::vector<Change> changes;
  changes.reserve(2 * stays.size());
  for (std::uint32_t s = 0; s < stays.size(); ++s) {
    changes.push_back({stays[s].start, true, s});
    changes.push_back({stays[s].end, false, s});
    const Buffer& buffer = plan.buffers[stays[s].buffer];
    top = std::max(top, (buffer.offset + buffer.bytes).count());
  }
  // At one moment what ends goes first: a task that waited for it may take its place.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.at != b.at ? a.at < b.at : (a.begins != b.begins ? !a.begins : a.stay < b.stay);
  });
  std::uint64_t peak = live;
  double peak_at = -1;
  for (const Change& change : changes) {
    const std::uint64_t bytes = plan.buffers[stays[change.stay].buffer].bytes.count();
    // A stay of no length is no stay: its end would come before its begin.
    if (stays[change.stay].start >= stays[change.stay].end) continue;
    live = change.begins ? live + bytes : live - bytes;
    if (live > peak) {
      peak = live;
      peak_at = change.at;
    }
    if (keeps_samples) result.samples.push_back({tier, change.at - origin_s, Bytes(live)});
  }
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.tier == tier && buffer.always) result.record.holders.push_back({buffer.name, buffer.bytes});
  }
  for (const Stay& stay : stays) {
    if (stay.start <= peak_at && peak_at < stay.end) {
      result.record.holders.push_back({plan.buffers[stay.buffer].name, plan.buffers[stay.buffer].bytes});
    }
  }
  std::stable_sort(result.record.holders.begin(), result.record.holders.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  result.record.used = Bytes(top);
  return result;
}

}  // namespace zeroplan::simulator
