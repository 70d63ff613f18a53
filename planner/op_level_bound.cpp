#include "planner/op_level_bound.h"

#include <algorithm>
#include <map>

#include "planner/lifetimes.h"

namespace zeroplan::planner {
namespace {

constexpr std::uint32_t kNever = UINT32_MAX;

/// First and last op of each tensor of a program.
struct OpSpan {
  std::uint32_t first = kNever;
  std::uint32_t last = 0;
};

std::vector<OpSpan> op_spans(const models::Program& program) {
  std::vector<OpSpan> spans(program.tensors.size());
  for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
    for (const auto* operands : {&program.ops[op].reads, &program.ops[op].writes}) {
      for (const models::Operand& operand : *operands) {
        if (operand.tensor == models::kNoTensor) continue;
        spans[operand.tensor].first = std::min(spans[operand.tensor].first, op);
        spans[operand.tensor].last = op;
      }
    }
  }
  return spans;
}

/// What a task shows of the buffers that its program fills or empties op by op.
struct PartialBuffers {
  bool saved_begins = false;     ///< forward: saved tensors appear
  bool saved_ends = false;       ///< backward: they go
  bool gradients_begin = false;  ///< parameter gradients appear

  auto operator<=>(const PartialBuffers&) const = default;
};

/// Most bytes of scratch and of those buffers at one op.
Bytes most_partial_bytes(const models::Program& program, const PartialBuffers& partial) {
  const std::vector<OpSpan> spans = op_spans(program);
  std::vector<std::uint64_t> change(program.ops.size() + 1, 0);  // differences modulo 2^64: their sums are exact
  const auto last_op = static_cast<std::uint32_t>(program.ops.size()) - 1;
  for (std::size_t t = 0; t < spans.size(); ++t) {
    if (spans[t].first == kNever) continue;
    const models::TensorPlace place = program.tensors[t].place;
    std::uint32_t first = spans[t].first;
    std::uint32_t last = spans[t].last;
    if (place == models::TensorPlace::kSaved && (partial.saved_begins || partial.saved_ends)) {
      if (!partial.saved_begins) first = 0;
      if (!partial.saved_ends) last = last_op;
    } else if (place == models::TensorPlace::kParameterGradient && partial.gradients_begin) {
      last = last_op;
    } else if (place != models::TensorPlace::kTemporary) {
      continue;
    }
    change[first] += program.tensors[t].bytes().count();
    change[last + 1] -= program.tensors[t].bytes().count();
  }
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  for (std::size_t op = 0; op < program.ops.size(); ++op) most = std::max(most, live += change[op]);
  return Bytes(most);
}

/// The sweep over one run.
class RunSweep {
 public:
  RunSweep(const Plan& plan, const TaskRun& run, Tier tier)
      : plan_(plan), run_(run), tier_(tier), live_(plan.buffers.size(), nullptr) {}

  Bytes most(Bytes always, std::map<std::pair<std::uint32_t, PartialBuffers>, Bytes>& known) {
    const std::vector<Life> lives = lives_in(plan_, run_);
    std::vector<std::vector<const Life*>> begins(run_.instances().size());
    std::vector<std::vector<const Life*>> ends(run_.instances().size());
    for (const Life& life : lives) {
      if (plan_.buffers[life.buffer].tier != tier_) continue;
      begins[life.first_position].push_back(&life);
      ends[life.last_position].push_back(&life);
    }
    Bytes whole = always;
    Bytes most;
    for (std::size_t i = 0; i < run_.instances().size(); ++i) {
      for (const Life* life : begins[i]) {
        whole += plan_.buffers[life->buffer].bytes;
        live_[life->buffer] = life;
      }
      most = std::max(most, at_instance(i, whole, known));
      for (const Life* life : ends[i]) {
        whole -= plan_.buffers[life->buffer].bytes;
        live_[life->buffer] = nullptr;
      }
    }
    return most;
  }

 private:
  bool begins_at(BufferId buffer, std::size_t i) const {
    return buffer != kNoBuffer && live_[buffer] != nullptr && live_[buffer]->first_position == i;
  }
  bool ends_at(BufferId buffer, std::size_t i) const {
    return buffer != kNoBuffer && live_[buffer] != nullptr && live_[buffer]->last_position == i;
  }

  Bytes at_instance(std::size_t i, Bytes whole,
                    std::map<std::pair<std::uint32_t, PartialBuffers>, Bytes>& known) const {
    const Task& task = *run_.instances()[i].task;
    const auto* compute = std::get_if<ComputeWork>(&task.work);
    if (compute == nullptr || tier_ != Tier::kDevice) return whole;
    PartialBuffers partial;
    partial.saved_begins = begins_at(compute->saved, i);
    partial.saved_ends = ends_at(compute->saved, i);
    Bytes replaced;
    if (partial.saved_begins || partial.saved_ends) replaced += plan_.buffers[compute->saved].bytes;
    const bool begins_all =
        !compute->groups.empty() && std::all_of(compute->groups.begin(), compute->groups.end(),
                                                [&](const GroupBinding& g) { return begins_at(g.gradients, i); });
    if (begins_all) {
      partial.gradients_begin = true;
      for (const GroupBinding& group : compute->groups) replaced += plan_.buffers[group.gradients].bytes;
    }
    if (task.frame != kNoBuffer) replaced += plan_.buffers[task.frame].bytes;
    const auto [it, is_new] = known.try_emplace({compute->program, partial});
    if (is_new) it->second = most_partial_bytes(plan_.programs[compute->program], partial);
    return whole - replaced + it->second;
  }

  const Plan& plan_;
  const TaskRun& run_;
  Tier tier_;
  std::vector<const Life*> live_;
};

}  // namespace

Bytes op_level_bound(const Plan& plan, const std::vector<TaskRun>& runs, Tier tier) {
  Bytes always;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.tier == tier && buffer.always) always += buffer.bytes;
  }
  std::map<std::pair<std::uint32_t, PartialBuffers>, Bytes> known;
  Bytes most = always;
  for (const TaskRun& run : runs) most = std::max(most, RunSweep(plan, run, tier).most(always, known));
  return most;
}

}  // namespace zeroplan::planner
