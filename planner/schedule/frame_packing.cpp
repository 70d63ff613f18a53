#include "planner/schedule/frame_packing.h"

#include <algorithm>

#include "planner/packing/packing.h"

namespace zeroplan::planner {
namespace {

constexpr std::uint32_t kUntouched = 0xffffffffu;

ConflictInstance instance_of(const models::Program& program, const std::vector<TemporaryLife>& lives,
                             std::uint64_t alignment) {
  ConflictInstance instance;
  instance.conflicts.resize(lives.size());
  for (std::uint32_t i = 0; i < lives.size(); ++i) {
    instance.sizes.push_back(round_up(program.tensors[lives[i].tensor].bytes(), alignment).count());
    instance.stays.push_back({static_cast<std::uint32_t>(i), lives[i].first, lives[i].last});
    for (std::uint32_t j = 0; j < lives.size(); ++j) {
      if (i != j && lives[i].first <= lives[j].last && lives[j].first <= lives[i].last)
        instance.conflicts[i].push_back(j);
    }
  }
  return instance;
}

/// Most bytes live at one op: what no packing can go below, and what the plan's checker computes.
std::uint64_t most_live_bytes(const models::Program& program, const std::vector<TemporaryLife>& lives,
                              const ConflictInstance& instance) {
  std::uint64_t most = 0;
  for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
    std::uint64_t live = 0;
    for (std::size_t i = 0; i < lives.size(); ++i) {
      if (lives[i].first <= op && op <= lives[i].last) live += instance.sizes[i];
    }
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

std::vector<TemporaryLife> temporary_lives(const models::Program& program) {
  std::vector<TemporaryLife> by_tensor(program.tensors.size(), TemporaryLife{0, kUntouched, 0});
  for (std::uint32_t o = 0; o < program.ops.size(); ++o) {
    const auto touch = [&](const models::Operand& operand) {
      if (operand.tensor == models::kNoTensor) return;
      TemporaryLife& life = by_tensor[operand.tensor];
      life.first = std::min(life.first, o);
      life.last = o;
    };
    std::for_each(program.ops[o].reads.begin(), program.ops[o].reads.end(), touch);
    std::for_each(program.ops[o].writes.begin(), program.ops[o].writes.end(), touch);
  }
  std::vector<TemporaryLife> lives;
  for (std::uint32_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].place != models::TensorPlace::kTemporary || by_tensor[t].first == kUntouched) continue;
    by_tensor[t].tensor = t;
    lives.push_back(by_tensor[t]);
  }
  return lives;
}

void pack_frame(models::Program& program, std::uint64_t alignment) {
  const auto lives = temporary_lives(program);
  const ConflictInstance instance = instance_of(program, lives, alignment);
  const ConflictPacking packing = pack_conflicts(instance);
  for (std::size_t i = 0; i < lives.size(); ++i) program.tensors[lives[i].tensor].offset = Bytes(packing.offsets[i]);
  program.frame_bytes = Bytes(packing.height);
  program.lower_bound_bytes = Bytes(most_live_bytes(program, lives, instance));
}

}  // namespace zeroplan::planner
