#include "planner/schedule/unit_programs.h"

#include <algorithm>
#include <map>

#include "models/native/decoder_programs.h"
#include "planner/schedule/frame_packing.h"

namespace zeroplan::planner {
namespace {

using models::BlockRecompute;
using models::Program;
using models::ProgramOptions;
using models::UnitKind;

/// Adds each program once, by its name.
class ProgramTable {
 public:
  explicit ProgramTable(Plan& plan) : plan_(plan) {}

  template <class Make>
  std::uint32_t add(Make make) {
    Program program = make();
    const auto [it, is_new] = index_.try_emplace(program.name, static_cast<std::uint32_t>(plan_.programs.size()));
    if (is_new) {
      pack_frame(program, plan_.tier(Tier::kDevice).alignment);
      plan_.programs.push_back(std::move(program));
    }
    return it->second;
  }

 private:
  Plan& plan_;
  std::map<std::string, std::uint32_t> index_;
};

ProgramOptions options_of(const Plan& plan, bool adds) {
  ProgramOptions options;
  options.batch = plan.strategy.micro_batch;
  options.seq = plan.training.seq;
  options.compute = compute_dtype(plan.training.precision);
  options.gradient = gradient_dtype(plan.training);
  options.alignment = plan.tier(Tier::kDevice).alignment;
  options.head_chunks = std::min(plan.strategy.head_chunks, plan.tokens_per_pass());
  options.accumulate_gradients = adds;
  if (plan.training.backend == BackendKind::kCuda) options.kernels = models::KernelSet::kCuda;
  return options;
}

BlockRecompute block_recompute(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return BlockRecompute::kNothing;
    case Recompute::kSelective:
      return BlockRecompute::kAttentionCore;
    case Recompute::kFull:
      return BlockRecompute::kEverything;
  }
  return BlockRecompute::kNothing;
}

/// Gradients of several micro-steps are summed in the whole-group buffer at stages 0 and 1 only.
bool sums_gradients_locally(const Plan& plan) {
  return plan.strategy.accumulation > 1 && plan.strategy.stage <= 1;
}

UnitPrograms block_programs(const Plan& plan, ProgramTable& table, std::size_t unit, BlockRecompute recompute) {
  ProgramOptions sets = options_of(plan, false);
  ProgramOptions adds = options_of(plan, true);
  sets.recompute = recompute;
  adds.recompute = recompute;
  UnitPrograms programs;
  programs.recomputes = recompute == BlockRecompute::kEverything;
  const auto light = [&] { return models::block_forward(plan.model, unit, sets, false); };
  programs.forward_only = table.add(light);
  programs.forward = programs.recomputes ? programs.forward_only : table.add([&] {
    Program p = models::block_forward(plan.model, unit, sets, true);
    if (recompute == BlockRecompute::kAttentionCore) p.name += ", without the attention core";
    return p;
  });
  programs.backward = table.add([&] { return models::block_backward(plan.model, unit, sets); });
  if (sums_gradients_locally(plan)) {
    programs.backward_adding = table.add([&] { return models::block_backward(plan.model, unit, adds); });
  }
  return programs;
}

UnitPrograms embedding_programs(const Plan& plan, ProgramTable& table, std::size_t unit) {
  UnitPrograms programs;
  programs.forward = table.add([&] { return models::embedding_forward(plan.model, unit, options_of(plan, false)); });
  programs.forward_only = programs.forward;
  programs.backward = table.add([&] { return models::embedding_backward(plan.model, unit, options_of(plan, false)); });
  if (sums_gradients_locally(plan)) {
    programs.backward_adding =
        table.add([&] { return models::embedding_backward(plan.model, unit, options_of(plan, true)); });
  }
  return programs;
}

UnitPrograms head_programs(const Plan& plan, ProgramTable& table, std::size_t unit) {
  UnitPrograms programs;
  programs.forward_only =
      table.add([&] { return models::head_loss(plan.model, unit, options_of(plan, false), false); });
  programs.backward = table.add([&] { return models::head_loss(plan.model, unit, options_of(plan, false), true); });
  if (sums_gradients_locally(plan)) {
    programs.backward_adding =
        table.add([&] { return models::head_loss(plan.model, unit, options_of(plan, true), true); });
  }
  return programs;
}

}  // namespace

std::uint64_t recomputed_blocks(const models::Model& model, const Strategy& strategy) {
  if (strategy.recompute == Recompute::kNone) return 0;
  const std::uint64_t layers = model.decoder ? model.decoder->layers : 0;
  return strategy.recompute_blocks == 0 ? layers : std::min(strategy.recompute_blocks, layers);
}

std::vector<UnitPrograms> make_unit_programs(Plan& plan) {
  ProgramTable table(plan);
  std::vector<UnitPrograms> result;
  const std::uint64_t recomputed = recomputed_blocks(plan.model, plan.strategy);
  std::uint64_t block = 0;
  std::map<BlockRecompute, UnitPrograms> blocks;  // all blocks have one shape: built once for each way to recompute
  for (std::size_t u = 0; u < plan.model.units.size(); ++u) {
    switch (plan.model.units[u].kind) {
      case UnitKind::kEmbedding:
        result.push_back(embedding_programs(plan, table, u));
        break;
      case UnitKind::kHead:
        result.push_back(head_programs(plan, table, u));
        break;
      case UnitKind::kBlock: {
        const auto recompute = block < recomputed ? block_recompute(plan.strategy.recompute) : BlockRecompute::kNothing;
        ++block;
        auto it = blocks.find(recompute);
        if (it == blocks.end()) it = blocks.emplace(recompute, block_programs(plan, table, u, recompute)).first;
        result.push_back(it->second);
        break;
      }
      case UnitKind::kOther:
        throw Error(ErrorCode::kUnsupported, "a native plan needs an embedding, blocks and a head");
    }
  }
  return result;
}

}  // namespace zeroplan::planner
