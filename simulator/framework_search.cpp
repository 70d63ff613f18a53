#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>

#include "planner/batches.h"
#include "simulator/framework_plan.h"

namespace zeroplan::simulator {
namespace {

using planner::Batch;
using planner::FixedDecisions;
using planner::Framework;
using planner::Offload;
using planner::OffloadPlace;
using planner::Recompute;
using planner::Strategy;
using planner::Verdict;

constexpr std::size_t kThreads = 2;
constexpr std::size_t kMostMicroBatches = 8;
/// Speeds within this part of each other are equal: the order of preference decides.
constexpr double kEqualSpeed = 1e-3;

struct Offloads {
  Offload optimizer, param;
};

std::vector<Offloads> offloads_to_try(Framework framework, const FixedDecisions& fixed) {
  constexpr Offload kNone{};
  constexpr Offload kHost{OffloadPlace::kCpu, 1};
  constexpr Offload kDisk{OffloadPlace::kNvme, 1};
  std::vector<Offloads> all = {{kNone, kNone}};
  if (framework == Framework::kDeepspeed)
    all = {{kNone, kNone}, {kHost, kNone}, {kHost, kHost}, {kDisk, kNone}, {kDisk, kDisk}};
  if (framework == Framework::kFsdp2) all = {{kNone, kNone}, {kNone, kHost}};
  std::vector<Offloads> result;
  for (Offloads o : all) {
    o.optimizer = fixed.offload_optimizer.value_or(o.optimizer);
    o.param = fixed.offload_param.value_or(o.param);
    const auto same = [&](const Offloads& r) { return r.optimizer == o.optimizer && r.param == o.param; };
    if (std::none_of(result.begin(), result.end(), same)) result.push_back(o);
  }
  return result;
}

/// What DeepSpeed can offload at a stage: its disk and its parameters need stage 3.
bool is_possible(Framework framework, std::uint64_t stage, const Offloads& offloads) {
  if (framework != Framework::kDeepspeed) return true;
  if (offloads.param.any() && stage < 3) return false;
  if (offloads.optimizer.place == OffloadPlace::kNvme && offloads.optimizer.any() && stage < 3) return false;
  return !offloads.optimizer.any() || stage >= 1;
}

/// Ascending micro-batches.
std::vector<Batch> batches_to_try(const planner::TrainingSpec& training, const FixedDecisions& fixed,
                                  const std::vector<std::uint64_t>& micro_batches) {
  const std::uint64_t passes = fixed.accumulation.value_or(1);
  if (fixed.micro_batch) return {{*fixed.micro_batch, passes}};
  if (!training.global_batch) {
    std::vector<Batch> batches;
    for (const std::uint64_t micro : micro_batches) batches.push_back({micro, passes});
    return batches;
  }
  return planner::batches_of(*training.global_batch / training.gpus, kMostMicroBatches);
}

/// Everything but the batch.
std::vector<Strategy> outlines_to_try(const FrameworkRun& run, const FixedDecisions& fixed,
                                      const std::vector<std::uint64_t>& stages) {
  const Framework framework = run.training.framework;
  const auto recomputes = fixed.recompute ? std::vector<Recompute>{*fixed.recompute}
                                          : std::vector<Recompute>{Recompute::kNone, Recompute::kFull};
  std::vector<Strategy> outlines;
  for (const Offloads& offloads : offloads_to_try(framework, fixed)) {
    for (const Recompute recompute : recomputes) {
      for (const std::uint64_t stage : stages) {
        const bool is_given = fixed.stage && fixed.offload_optimizer && fixed.offload_param;
        if (!is_given && !is_possible(framework, stage, offloads)) continue;
        Strategy s = fixed.over_defaults();
        s.stage = stage;
        s.recompute = recompute;
        s.offload_optimizer = offloads.optimizer;
        s.offload_param = offloads.param;
        if (!fixed.offload_gradients) s.offload_gradients = offloads.optimizer;
        outlines.push_back(s);
      }
    }
  }
  return outlines;
}

/// A plan with its place in the order of preference.
struct Candidate {
  std::size_t preference = 0;
  FrameworkPlan plan;
};

/// Larger micro-batches need more: after the first that does not fit, the rest is left out.
void try_batches(const FrameworkRun& run, const Strategy& outline, const std::vector<Batch>& batches,
                 std::size_t preference, std::vector<Candidate>& found, std::uint64_t& left_out) {
  for (std::size_t b = 0; b < batches.size(); ++b) {
    Strategy s = outline;
    s.micro_batch = batches[b].micro;
    s.accumulation = batches[b].accumulation;
    // The largest micro-batch first among equals.
    found.push_back({preference + batches.size() - 1 - b, plan_framework(run, s)});
    if (found.back().plan.fit.verdict == Verdict::kNo) {
      left_out += batches.size() - 1 - b;
      return;
    }
  }
}

std::int64_t speed_step(const FrameworkPlan& plan) {
  if (!plan.step || !(plan.step->tokens_per_s > 0)) return 0;
  return static_cast<std::int64_t>(std::floor(std::log(plan.step->tokens_per_s) / kEqualSpeed));
}

}  // namespace

FrameworkSearch search_framework(const FrameworkRun& run, const FixedDecisions& fixed,
                                 const std::vector<std::uint64_t>& stages,
                                 const std::vector<std::uint64_t>& micro_batches) {
  const std::vector<Strategy> outlines = outlines_to_try(run, fixed, stages);
  const std::vector<Batch> batches = batches_to_try(run.training, fixed, micro_batches);
  if (outlines.empty()) {
    throw Error(ErrorCode::kUsage,
                "--stage and the --offload flags contradict each other: parameters and the disk need stage 3, the "
                "optimizer stage 1");
  }
  std::vector<std::vector<Candidate>> found(outlines.size());
  std::vector<std::uint64_t> left_out(outlines.size(), 0);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t o = next++; o < outlines.size(); o = next++) {
      try_batches(run, outlines[o], batches, o * batches.size(), found[o], left_out[o]);
    }
  };
  std::vector<std::future<void>> others;
  for (std::size_t t = 1; t < std::min(kThreads, outlines.size()); ++t)
    others.push_back(std::async(std::launch::async, work));
  work();
  for (auto& other : others) other.get();

  FrameworkSearch search;
  std::vector<Candidate> all;
  for (std::size_t o = 0; o < outlines.size(); ++o) {
    search.left_out += left_out[o];
    for (Candidate& candidate : found[o]) all.push_back(std::move(candidate));
  }
  search.considered = all.size();
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    const FrameworkPlan& x = a.plan;
    const FrameworkPlan& y = b.plan;
    if (x.fit.verdict != y.fit.verdict) return x.fit.verdict < y.fit.verdict;
    if (x.fit.verdict == Verdict::kNo) return x.device != y.device ? x.device < y.device : a.preference < b.preference;
    const std::int64_t speed_x = speed_step(x);
    const std::int64_t speed_y = speed_step(y);
    return speed_x != speed_y ? speed_x > speed_y : a.preference < b.preference;
  });
  for (Candidate& candidate : all) {
    const bool fits = candidate.plan.fit.verdict != Verdict::kNo;
    (fits ? search.ranked : search.rejected).push_back(std::move(candidate.plan));
  }
  return search;
}

}  // namespace zeroplan::simulator
