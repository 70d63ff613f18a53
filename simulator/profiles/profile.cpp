#include "simulator/profiles/profile.h"

#include <algorithm>

#include "simulator/profiles/framework.h"

namespace zeroplan::simulator {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
// The first step creates states, the second meets its leftovers; then until the allocator takes nothing new.
constexpr int kFewestSteps = 3;
constexpr int kMostSteps = 5;

/// cuBLAS takes 32 MiB per handle and stream from Hopper on, 8.125 MiB before; cuBLASLt 1 MiB (PyTorch's default).
std::vector<std::uint64_t> gemm_workspaces(const planner::Machine* machine) {
  constexpr std::uint64_t kBeforeHopper = 8'519'680;
  if (machine == nullptr) return {32 * kMebibyte, kMebibyte};
  const std::string& name = machine->name;
  const bool older = name.find("a100") != name.npos || name.find("v100") != name.npos || name.find("rtx") != name.npos;
  return {older ? kBeforeHopper : 32 * kMebibyte, kMebibyte};
}

DType parameter_dtype(const planner::TrainingSpec& spec) {
  return planner::compute_dtype(spec.precision);
}

std::vector<Allocation> allocations(const MemoryLog& log, const EagerModel& model, const ProfileRequest& request) {
  constexpr std::size_t kMost = 40;
  std::vector<Allocation> result;
  const std::uint64_t b = request.strategy.micro_batch;
  const std::uint64_t s = request.spec.seq;
  for (const LargestTensor& t : log.largest()) {
    const std::string& name = log.name_of(t.site);
    const bool always = t.site == kLogits || t.site == kAttentionScores;
    if (result.size() >= kMost && !always) continue;
    Allocation a{.name = name,
                 .dtype = t.dtype,
                 .shape = {t.elements},
                 .bytes = t.elements * zeroplan::size_of(t.dtype),
                 .phase = t.phase};
    if (t.site == kAttentionScores && t.elements % (b * s * s) == 0) {
      a.shape = {b, t.elements / (b * s * s), s, s};
    } else if (name.starts_with("activations") || t.site == kLogits || t.site == kLossTerms) {
      if (t.elements % (b * s) == 0) a.shape = {b, s, t.elements / (b * s)};
    }
    result.push_back(std::move(a));
  }
  static_cast<void>(model);
  return result;
}

std::unique_ptr<FrameworkProfile> make_framework(EagerTape& tape, const EagerModel& model,
                                                 const ProfileRequest& request) {
  switch (request.spec.framework) {
    case planner::Framework::kFsdp2:
      return make_fsdp2(tape, model, request);
    case planner::Framework::kDeepspeed:
      return make_deepspeed(tape, model, request);
    default:
      return make_pytorch(tape, model, request);
  }
}

}  // namespace

PeakPrediction predict_peak(const ProfileRequest& request) {
  MemoryLog log(request.allocator);
  EagerTape tape(log, gemm_workspaces(request.machine));
  const PassSettings settings{.micro_batch = request.strategy.micro_batch,
                              .seq = request.spec.seq,
                              .parameter_dtype = parameter_dtype(request.spec),
                              .autocast = request.spec.precision == planner::Precision::kAmp,
                              .attention = request.spec.attention,
                              .recompute = request.strategy.recompute};
  EagerModel model(tape, request.model, request.trained, settings);
  const std::unique_ptr<FrameworkProfile> framework = make_framework(tape, model, request);
  log.begin(Phase::kLoad);
  tape.warm_up();
  framework->load();
  std::uint64_t reserved_before = 0;
  for (int step = 0; step < kMostSteps; ++step) {
    if (step >= kFewestSteps && log.allocator().peak_reserved_bytes() == reserved_before) break;
    reserved_before = log.allocator().peak_reserved_bytes();
    log.begin_step();
    for (std::uint64_t pass = 0; pass < std::min<std::uint64_t>(2, request.strategy.accumulation); ++pass) {
      log.begin(Phase::kForward);
      ForwardResult result = model.forward(*framework);
      log.begin(Phase::kBackward);
      result.logits = {};
      framework->begin_backward();
      Tensor one = tape.make(1, result.loss.dtype(), kLossTerms);
      if (result.loss.requires_grad()) tape.backward(result.loss, std::move(one));
      result.loss = {};
      framework->end_backward();
    }
    const bool first = step == 0;
    log.begin(first ? Phase::kOptimizerInit : Phase::kStep);
    framework->step(first);
    log.begin(Phase::kZeroGrad);
    framework->zero_gradients();
  }
  log.finish();

  PeakPrediction p;
  for (std::size_t i = 0; i < kPhases; ++i) p.phases[i] = log.phase(static_cast<Phase>(i));
  p.phase = log.highest();
  p.allocated_bytes = log.phase(p.phase)->peak;
  p.holders = log.holders(p.phase);
  p.reserved_bytes = log.allocator().peak_reserved_bytes();
  constexpr std::uint64_t kDefaultContext = 650 * kMebibyte;
  const bool stated = request.machine != nullptr && request.machine->context_bytes > Bytes(0);
  p.context_bytes = stated ? request.machine->context_bytes.count() : kDefaultContext;
  p.allocations = allocations(log, model, request);
  const StateParts states = model_states(request.model, request.trained, request.spec, request.strategy);
  p.host_bytes = states.on(Tier::kHost).count();
  p.disk_bytes = states.on(Tier::kDisk).count();
  return p;
}

}  // namespace zeroplan::simulator
