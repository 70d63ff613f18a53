#include "planner/verify.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "planner/lifetimes.h"
#include "planner/memory_sweep.h"
#include "planner/op_level_bound.h"
#include "planner/schedule/frame_packing.h"

namespace zeroplan::planner {
namespace {

constexpr std::array<Tier, kTierCount> kTiers = {Tier::kDevice, Tier::kHost, Tier::kDisk};

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan) {}

  std::vector<std::string> run() {
    check_tasks();
    check_live_ranges();
    for (const models::Program& program : plan_.programs) check_program(program);
    for (const Tier tier : kTiers) check_addresses(tier);
    if (!problems_.empty()) return problems_;  // the sweep needs sane addresses and waits
    std::vector<TaskRun> runs;
    try {
      for (auto& steps : run_sequences(plan_)) runs.emplace_back(std::move(steps));
    } catch (const Error& e) {
      problem(e.message());
      return problems_;
    }
    for (const TaskRun& r : runs) {
      for (const Tier tier : kTiers) {
        if (plan_.tier(tier).arena > Bytes())
          MemorySweep(plan_, r, tier, r.steps().front()->name == "init", problems_).play();
      }
    }
    for (const Tier tier : kTiers) check_bound(tier, runs);
    return problems_;
  }

 private:
  void problem(std::string text) {
    if (problems_.size() < kMostProblems) problems_.push_back(std::move(text));
  }

  void check_tasks() {
    std::unordered_set<std::string_view> training_keys;
    for (const Step& step : plan_.steps) {
      for (const Task& task : step.tasks) {
        if (step.is_training()) training_keys.insert(task.key);
      }
    }
    for (const Step& step : plan_.steps) {
      std::unordered_set<TaskId> earlier;
      for (const Task& task : step.tasks) {
        for (const TaskId wait : task.waits) {
          if (!earlier.contains(wait)) {
            problem(fmt::format("task {} waits for {}, which is no earlier task of step {}", task.id, wait, step.name));
          }
        }
        if (!step.is_training() && !task.waits_previous.empty()) {
          problem(fmt::format("task {} of step {} waits for a step before it", task.id, step.name));
        }
        for (const std::string& key : task.waits_previous) {
          if (!training_keys.contains(key))
            problem(fmt::format("task {} waits for {}, a key of no training step", task.id, key));
        }
        earlier.insert(task.id);
      }
    }
  }

  void check_live_ranges() {
    std::unordered_set<TaskId> ids;
    std::vector<std::pair<TaskId, TaskId>> users(plan_.buffers.size(), {UINT32_MAX, 0});
    for (const Step& step : plan_.steps) {
      for (const Task& task : step.tasks) {
        ids.insert(task.id);
        const auto use = [&](const Access& access) {
          auto& [low, high] = users[access.buffer];
          low = std::min(low, task.id);
          high = std::max(high, task.id);
        };
        std::for_each(task.reads.begin(), task.reads.end(), use);
        std::for_each(task.writes.begin(), task.writes.end(), use);
      }
    }
    for (const Buffer& buffer : plan_.buffers) {
      if (buffer.always || users[buffer.id].first == UINT32_MAX) continue;
      const auto [low, high] = users[buffer.id];
      if (!ids.contains(buffer.first) || !ids.contains(buffer.last) || buffer.first > low || buffer.last < high) {
        problem(fmt::format("buffer {} ({}) is live from task {} to {}, its users are {} to {}", buffer.id, buffer.name,
                            buffer.first, buffer.last, low, high));
      }
    }
  }

  void check_program(const models::Program& program) {
    const std::uint64_t alignment = plan_.tier(Tier::kDevice).alignment;
    const auto lives = temporary_lives(program);
    Bytes end;
    for (std::size_t i = 0; i < lives.size(); ++i) {
      const models::ProgramTensor& a = program.tensors[lives[i].tensor];
      if (a.offset.count() % alignment != 0)
        problem(fmt::format("program {}: {} is not aligned", program.name, a.name));
      end = std::max(end, a.offset + round_up(a.bytes(), alignment));
      for (std::size_t j = 0; j < i; ++j) {
        const models::ProgramTensor& b = program.tensors[lives[j].tensor];
        const bool at_once = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool overlap = a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
        if (at_once && overlap) problem(fmt::format("program {}: {} and {} overlap", program.name, a.name, b.name));
      }
    }
    if (end != program.frame_bytes) {
      problem(fmt::format("program {}: the frame has {} bytes, its temporaries end at {}", program.name,
                          program.frame_bytes.count(), end.count()));
    }
  }

  void check_addresses(Tier tier) {
    const TierPlan& t = plan_.tier(tier);
    std::vector<const Buffer*> placed;
    Bytes end;
    for (const Buffer& buffer : plan_.buffers) {
      if (buffer.tier != tier) continue;
      if (buffer.offset.count() % t.alignment != 0) problem(fmt::format("buffer {} is not aligned", buffer.id));
      end = std::max(end, buffer.offset + round_up(buffer.bytes, t.alignment));
      if (buffer.bytes > Bytes()) placed.push_back(&buffer);
    }
    if (end != t.arena) {
      problem(fmt::format("{}: the arena has {} bytes, the last buffer ends at {}", name_of(tier), t.arena.count(),
                          end.count()));
    }
    if (t.budget && t.arena > *t.budget) {
      problem(fmt::format("{}: the arena of {} bytes exceeds the budget of {}", name_of(tier), t.arena.count(),
                          t.budget->count()));
    }
    std::sort(placed.begin(), placed.end(), [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; });
    const Buffer* furthest = nullptr;
    const Buffer* furthest_always = nullptr;
    for (const Buffer* buffer : placed) {
      const Buffer* other = buffer->always ? furthest : furthest_always;
      if (other != nullptr && buffer->offset < other->offset + other->bytes) {
        problem(fmt::format("{}: buffers {} and {} share addresses, and one is always live", name_of(tier), other->id,
                            buffer->id));
      }
      const auto reaches_further = [&](const Buffer* than) {
        return than == nullptr || buffer->offset + buffer->bytes > than->offset + than->bytes;
      };
      if (reaches_further(furthest)) furthest = buffer;
      if (buffer->always && reaches_further(furthest_always)) furthest_always = buffer;
    }
  }

  void check_bound(Tier tier, const std::vector<TaskRun>& runs) {
    const TierPlan& t = plan_.tier(tier);
    const std::set<BufferId> distinct(t.lower_bound_holders.begin(), t.lower_bound_holders.end());
    Bytes sum;
    for (const BufferId id : t.lower_bound_holders) {
      if (plan_.buffers[id].tier != tier) problem(fmt::format("{}: buffer {} is on another tier", name_of(tier), id));
      sum += round_up(plan_.buffers[id].bytes, t.alignment);
    }
    if (distinct.size() != t.lower_bound_holders.size() || sum != t.lower_bound || sum > t.arena) {
      problem(fmt::format("{}: the lower bound {} is not that of its holders, {}", name_of(tier), t.lower_bound.count(),
                          sum.count()));
    }
    check_meeting(tier, runs, distinct);
    const Bytes op_level = op_level_bound(plan_, runs, tier);
    if (op_level != t.op_lower_bound) {
      problem(fmt::format("{}: the op-level bound is {}, expected {}", name_of(tier), t.op_lower_bound.count(),
                          op_level.count()));
    }
  }

  /// Any two transient holders of a bound may hold values at once.
  void check_meeting(Tier tier, const std::vector<TaskRun>& runs, const std::set<BufferId>& holders) {
    const ConflictGraph graph = find_conflicts(plan_, runs, tier);
    std::vector<std::uint32_t> members;
    std::set<BufferId> seen;
    for (std::uint32_t i = 0; i < graph.buffers.size(); ++i) {
      if (holders.contains(graph.buffers[i])) {
        members.push_back(i);
        seen.insert(graph.buffers[i]);
      }
    }
    for (const BufferId id : holders) {
      if (!plan_.buffers[id].always && !seen.contains(id))
        problem(fmt::format("{}: buffer {} holds no value", name_of(tier), id));
    }
    for (const std::uint32_t a : members) {
      for (const std::uint32_t b : members) {
        if (a < b && !std::binary_search(graph.conflicts[a].begin(), graph.conflicts[a].end(), b)) {
          problem(fmt::format("{}: buffers {} and {} hold the lower bound, but never at the same time", name_of(tier),
                              graph.buffers[a], graph.buffers[b]));
          return;
        }
      }
    }
  }

  const Plan& plan_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> verify(const Plan& plan) {
  return Verifier(plan).run();
}

}  // namespace zeroplan::planner
