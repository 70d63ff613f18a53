#include "simulator/profiles/profile_choice.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "models/core/error.h"
#include "models/core/text.h"

namespace zeroplan::simulator {
namespace {

using planner::FitResult;
using planner::Framework;
using planner::OffloadPlace;
using planner::Verdict;

constexpr std::size_t kMostAlternatives = 12;
constexpr double kOwnError = 0.1;          // of a prediction for other frameworks
constexpr double kDeepspeedBuffers = 1.5;  // additional_buffer_factor of its estimators

/// Two runs apart by some decisions.
struct Candidate {
  Json change = Json::object();
  planner::TrainingSpec spec;
  planner::Strategy strategy;
};

class Judge {
 public:
  void consider(planner::Tier tier, Bytes need, const std::optional<Bytes>& budget, double comfortable) {
    if (!budget) return;
    Verdict verdict = Verdict::kYes;
    const double use = static_cast<double>(need.count());
    const double offered = static_cast<double>(budget->count());
    if (need > *budget) {
      verdict = Verdict::kNo;
    } else if (use > offered * comfortable) {
      verdict = Verdict::kTight;
    }
    if (verdict > fit_.verdict) fit_ = {verdict, tier};
  }
  const FitResult& fit() const { return fit_; }

 private:
  FitResult fit_;
};

void add(std::vector<Candidate>& list, const Candidate& base, std::initializer_list<std::pair<const char*, Json>> keys,
         const std::function<void(Candidate&)>& change) {
  Candidate c = base;
  for (const auto& [key, value] : keys) c.change[key] = value;
  change(c);
  if (c.spec == base.spec && c.strategy == base.strategy) return;
  list.push_back(std::move(c));
}

/// Offloads of a DeepSpeed run; the optimizer's needs stage 1 at least and is meant for 2, weights' needs 3.
void add_offloads(std::vector<Candidate>& list, const Candidate& base) {
  const std::uint64_t stage = base.strategy.stage;
  for (const auto& [place, name] : {std::pair{OffloadPlace::kCpu, "cpu"}, std::pair{OffloadPlace::kNvme, "nvme"}}) {
    const planner::Offload offload{place, 1};
    const bool nvme = place == OffloadPlace::kNvme;
    const std::uint64_t at_least = nvme ? 3 : 2;
    const auto at_stage = [&](std::uint64_t needed, Candidate& c) {
      if (c.strategy.stage >= needed) return;
      c.strategy.stage = needed;
      c.change["stage"] = needed;
    };
    const bool optimizer_there = base.strategy.offload_optimizer.any();
    if (!optimizer_there) {
      add(list, base, {{"offload_optimizer", name}}, [&](Candidate& c) {
        c.strategy.offload_optimizer = offload;
        at_stage(stage == 1 && !nvme ? 1 : at_least, c);
      });
    }
    if (base.strategy.offload_param.any()) continue;
    if (optimizer_there) {
      add(list, base, {{"offload_param", name}}, [&](Candidate& c) {
        c.strategy.offload_param = offload;
        at_stage(3, c);
      });
    } else {
      add(list, base, {{"offload_optimizer", name}, {"offload_param", name}}, [&](Candidate& c) {
        c.strategy.offload_optimizer = c.strategy.offload_param = offload;
        at_stage(3, c);
      });
    }
  }
}

std::vector<Candidate> single_changes(const Candidate& base) {
  std::vector<Candidate> list;
  const Framework framework = base.spec.framework;
  if (framework == Framework::kDeepspeed) {
    for (std::uint64_t stage = base.strategy.stage + 1; stage <= 3; ++stage) {
      add(list, base, {{"stage", stage}}, [stage](Candidate& c) { c.strategy.stage = stage; });
    }
    add_offloads(list, base);
  }
  if (framework == Framework::kFsdp2 && !base.strategy.offload_param.any()) {
    add(list, base, {{"offload_param", "cpu"}}, [](Candidate& c) {
      c.strategy.offload_param = {OffloadPlace::kCpu, 1};
    });
  }
  add(list, base, {{"recompute", "full"}}, [](Candidate& c) { c.strategy.recompute = planner::Recompute::kFull; });
  add(list, base, {{"micro_batch", 1}}, [](Candidate& c) { c.strategy.micro_batch = 1; });
  add(list, base, {{"precision", "bf16"}}, [](Candidate& c) { c.spec.precision = planner::Precision::kBf16; });
  if (framework != Framework::kPytorch) {
    for (const std::uint64_t times : {2, 4}) {
      add(list, base, {{"gpus", base.spec.gpus * times}}, [times](Candidate& c) {
        const bool one_node = c.spec.nodes == 1 && c.spec.gpus * times <= 8;
        c.spec.gpus *= times;
        if (!one_node) c.spec.nodes *= times;
      });
    }
  }
  if (base.spec.method == planner::Method::kFull) {
    add(list, base, {{"method", "lora"}}, [](Candidate& c) { c.spec.method = planner::Method::kLora; });
  }
  if (base.spec.method != planner::Method::kQlora) {
    add(list, base, {{"method", "qlora"}}, [](Candidate& c) { c.spec.method = planner::Method::kQlora; });
  }
  return list;
}

/// A need, or nothing where the model or framework does not take the change.
std::optional<ProfileNeed> need_if_possible(const models::Model& model, const planner::Machine& machine,
                                            const Candidate& c) {
  try {
    c.spec.validate();
    return profile_need(model, machine, c.spec, c.strategy);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported && e.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

/// Single changes; where none of them fits, two at a time. What fits first, then the nearest.
std::vector<ProfileAlternative> alternatives(const models::Model& model, const planner::Machine& machine,
                                             const Candidate& base) {
  std::vector<ProfileAlternative> list;
  const auto try_all = [&](const std::vector<Candidate>& candidates) {
    for (const Candidate& c : candidates) {
      if (auto need = need_if_possible(model, machine, c)) list.push_back({c.change, *std::move(need)});
    }
  };
  const auto fits = [](const ProfileAlternative& a) { return a.need.fit.verdict != Verdict::kNo; };
  const std::vector<Candidate> singles = single_changes(base);
  try_all(singles);
  if (std::none_of(list.begin(), list.end(), fits)) {
    for (const Candidate& first : singles) {
      std::vector<Candidate> seconds = single_changes(first);
      std::erase_if(seconds, [](const Candidate& c) {  // more GPUs and a smaller task are no second thoughts
        return c.change.contains("gpus") || c.change.contains("method") || c.change.size() < 2;
      });
      try_all(seconds);
    }
  }
  std::stable_sort(list.begin(), list.end(), [&](const ProfileAlternative& a, const ProfileAlternative& b) {
    if (fits(a) != fits(b)) return fits(a);
    return fits(a) ? a.change.size() < b.change.size() : a.need.device < b.need.device;
  });
  if (list.size() > kMostAlternatives) list.resize(kMostAlternatives);
  return list;
}

/// Only decisions that the user left open.
bool is_open(const Json& change, const planner::FixedDecisions& fixed) {
  for (const auto& [key, value] : change.items()) {
    const bool open = (key == "stage" && !fixed.stage) || (key == "recompute" && !fixed.recompute) ||
                      (key == "micro_batch" && !fixed.micro_batch) ||
                      (key == "offload_optimizer" && !fixed.offload_optimizer) ||
                      (key == "offload_param" && !fixed.offload_param);
    if (!open) return false;
  }
  return true;
}

void apply(const Json& change, planner::Strategy& s) {
  const auto place = [&](const char* key) {
    return planner::Offload{change.at(key) == "nvme" ? OffloadPlace::kNvme : OffloadPlace::kCpu, 1};
  };
  if (change.contains("stage")) s.stage = change.at("stage").get<std::uint64_t>();
  if (change.contains("recompute")) s.recompute = planner::Recompute::kFull;
  if (change.contains("micro_batch")) s.micro_batch = 1;
  if (change.contains("offload_optimizer")) s.offload_optimizer = place("offload_optimizer");
  if (change.contains("offload_param")) s.offload_param = place("offload_param");
}

/// Takes the first alternative that fits, best with room to spare, and touches nothing that the user fixed; says
/// whether there was one.
bool take_open_decisions(ProfileChoice& choice, const planner::FixedDecisions& fixed) {
  if (choice.need.fit.verdict != Verdict::kNo) return false;
  for (const Verdict wanted : {Verdict::kYes, Verdict::kTight}) {
    for (const ProfileAlternative& a : choice.alternatives) {
      if (a.need.fit.verdict != wanted || !is_open(a.change, fixed)) continue;
      apply(a.change, choice.strategy);
      choice.need = a.need;
      return true;
    }
  }
  return false;
}

std::string holders_in_words(const ProfileNeed& need) {
  if (!need.peak) return "model states; activations are left out, since how the family computes is not known";
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, need.peak->holders.size()); ++i) {
    const Holder& h = need.peak->holders[i];
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", h.name, format_size(Bytes(h.bytes)));
  }
  return text;
}

std::vector<std::string> reasons(const ProfileChoice& choice, const planner::Machine& machine) {
  const ProfileNeed& need = choice.need;
  const auto line = [](std::string_view tier, Bytes bytes, const std::optional<Bytes>& budget) {
    return fmt::format("{}: {} needed of {}", tier, format_size(bytes), budget ? format_size(*budget) : "no limit");
  };
  std::vector<std::string> why;
  const std::string device = line("device", need.device, machine.device_bytes) +
                             fmt::format(" a GPU; largest holders: {}", holders_in_words(need));
  std::string host = line("host", need.host, machine.host_bytes) + " a node for states";
  if (choice.spec.framework == Framework::kDeepspeed && need.host > Bytes(0)) {
    const Bytes asked(static_cast<std::uint64_t>(static_cast<double>(need.host.count()) * kDeepspeedBuffers));
    host += fmt::format(
        "; pinned buffers are rounded up and loading adds a copy, so that DeepSpeed's own estimator asks for "
        "1.5 times as much, {}",
        format_size(asked));
  }
  const bool host_first = need.fit.limit == planner::Tier::kHost;
  why.push_back(host_first ? host : device);
  if (host_first || need.host > Bytes(0)) why.push_back(host_first ? device : host);
  if (need.disk > Bytes(0)) why.push_back(line("disk", need.disk, machine.disk_bytes) + " a node");
  const bool shards = choice.strategy.stage > 0;
  if (shards && choice.spec.gpus == 1) {
    why.push_back(
        fmt::format("stage {} divides by the number of ranks: with 1 rank nothing is saved", choice.strategy.stage));
  }
  return why;
}

}  // namespace

ProfileNeed profile_need(const models::Model& model, const planner::Machine& machine, const planner::TrainingSpec& spec,
                         const planner::Strategy& strategy) {
  const TrainedParameters trained = trained_parameters(model, spec);
  ProfileNeed need;
  need.states = model_states(model, trained, spec, strategy);
  need.device = need.states.on(Tier::kDevice) + machine.context_bytes;
  try {
    need.peak = predict_peak({model, trained, spec, strategy, &machine, {}});
    need.device = Bytes(need.peak->process_bytes());
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
  }
  need.host = need.states.on(Tier::kHost);
  need.disk = need.states.on(Tier::kDisk);
  Judge judge;
  const double comfortable = 1 - kOwnError;
  judge.consider(planner::Tier::kDevice, need.device, machine.device_bytes, comfortable);
  judge.consider(planner::Tier::kHost, need.host, machine.host_bytes,
                 spec.framework == Framework::kDeepspeed ? 1 / kDeepspeedBuffers : comfortable);
  judge.consider(planner::Tier::kDisk, need.disk, machine.disk_bytes, comfortable);
  need.fit = judge.fit();
  const bool too_sure = !need.peak && need.fit.verdict == Verdict::kYes;
  if (too_sure) need.fit = {Verdict::kTight, planner::Tier::kDevice};  // activations are not known
  return need;
}

ProfileChoice choose_profile(const models::Model& model, const planner::Machine& machine,
                             const planner::TrainingSpec& spec, const planner::FixedDecisions& fixed) {
  ProfileChoice choice{.spec = spec, .strategy = fixed.over_defaults(), .need = {}, .alternatives = {}, .why = {}};
  if (spec.framework == Framework::kFsdp2) choice.strategy.stage = 3;
  if (spec.framework == Framework::kPytorch || spec.framework == Framework::kDdp) choice.strategy.stage = 0;
  choice.need = profile_need(model, machine, spec, choice.strategy);
  if (choice.need.fit.verdict != Verdict::kYes) {
    choice.alternatives = alternatives(model, machine, {.spec = spec, .strategy = choice.strategy});
    if (take_open_decisions(choice, fixed)) {
      const bool fits = choice.need.fit.verdict == Verdict::kYes;
      choice.alternatives = fits ? std::vector<ProfileAlternative>{}
                                 : alternatives(model, machine, {.spec = spec, .strategy = choice.strategy});
    }
  }
  choice.why = reasons(choice, machine);
  return choice;
}

}  // namespace zeroplan::simulator
