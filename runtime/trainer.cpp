#include "runtime/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/device/device_ranks.h"
#include "runtime/rank_set.h"

namespace zeroplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// Updates that may be under way or waiting: one runs, and the lanes that are ahead may begin the next.
constexpr std::uint64_t kUpdatesAhead = 2;

void refuse_what_is_missing(const planner::Plan& plan) {
  const auto refuse = [](const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::kUnsupported, what).hint(hint);
  };
  if (!plan.model.native_obstacles.empty()) {
    refuse(plan.model.native_obstacles.front(),
           "export the decisions instead: zeroplan tune --export deepspeed=ds_config.json");
  }
  const planner::TrainingSpec& training = plan.training;
  if (training.precision == planner::Precision::kAmp) {
    refuse(fmt::format("precision {}: this runtime trains in fp32, bf16, bf16-mixed and fp16-mixed",
                       planner::name_of(training.precision)),
           "make the plan with --precision bf16-mixed");
  }
  const bool has_narrow_states = training.precision == planner::Precision::kBf16;
  if (has_narrow_states && training.optimizer == planner::OptimizerKind::kLamb) {
    refuse("precision bf16: lamb needs fp32 weights and moments", "make the plan with --precision bf16-mixed");
  }
}

/// A schedule that raises beta1 to 1 would end in divisions by zero. \param last  number of the last update
void refuse_growing_momentum(const Schedule& schedule, std::uint64_t last, planner::OptimizerKind optimizer) {
  const auto momenta = schedule.momenta(last);
  if (!momenta || !has_betas(optimizer) || momenta->beta1 < 1) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("--schedule: beta1 would be {} in update {}, expected less than 1", momenta->beta1, last + 1))
      .at({.key = "--schedule-args", .value = "decay_mom_rate"})
      .hint("lower decay_mom_rate or --steps, or set cycle_momentum=false");
}

Error no_scale_left(const StepReport& report) {
  return Error(ErrorCode::kInvalidInput,
               fmt::format("step {}: the gradient overflowed fp16 and the loss scale is already at its minimum, {:g}",
                           report.step, report.loss_scale))
      .at({.key = "--min-loss-scale", .value = fmt::format("{:g}", report.loss_scale)})
      .hint(
          "make the plan with --precision bf16-mixed or fp32; or look for numbers in data or weights that are not "
          "finite, or lower --lr");
}

}  // namespace

/// Hands the results of updates from rank 0's compute lane to the thread that reports them.
class Trainer::Reports {
 public:
  struct Entry {
    kernels::StepScalars scalars;
    Clock::time_point when;
  };

  explicit Reports(StopSignal& stop) { stop.add(finished_); }
  void put(std::uint64_t update, const kernels::StepScalars& scalars) {
    ring_[update % ring_.size()] = {scalars, Clock::now()};
    finished_.advance();
  }
  /// Waits for the next one. \returns null after a failure
  const Entry* next(std::uint64_t update) { return finished_.wait(++taken_) ? &ring_[update % ring_.size()] : nullptr; }

 private:
  std::array<Entry, 2 * kUpdatesAhead> ring_;
  Timeline finished_;
  std::uint64_t taken_ = 0;
};

/// Lets the failure of another process stop the ranks of this one.
class Trainer::FailureWatch {
 public:
  FailureWatch(ControlPlane& control, StopSignal& stop) : control_(control) { control_.attach(stop); }
  ~FailureWatch() { control_.detach(); }
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

 private:
  ControlPlane& control_;
};

/// One rank's answers to its tasks.
class Trainer::Hooks final : public TaskHooks {
 public:
  Hooks(Trainer& trainer, std::uint64_t rank) : trainer_(trainer), rank_(rank) {}

  void input(const StepPosition& position, const InputTarget& target) override {
    trainer_.batches_.read(position.update, position.micro_step, rank_, target.tokens, target.labels);
    if (target.scalars != nullptr) set_scalars(position.update, *target.scalars);
  }
  void load(const GroupState& group) override {
    // Ranks on the CPU load at the same time, each on a thread of its own; those of a device one after another.
    const bool is_on_device = trainer_.plan_.training.backend == planner::BackendKind::kCuda;
    fill_group(trainer_.plan_, group, trainer_.weights_, is_on_device ? trainer_.settings_.threads : 1);
  }
  void save(const GroupState& group) override { trainer_.writer_->add(rank_, group); }
  void finished(const StepPosition& position, const kernels::StepScalars& scalars) override {
    // A scale that cannot shrink ends the run where the updates are reported; until then it stays.
    if (trainer_.scales_loss()) static_cast<void>(scaler().update(scalars.found_inf != 0));
    if (rank_ == trainer_.ranks_->first_rank()) trainer_.reports_->put(position.update, scalars);
  }

 private:
  LossScaler& scaler() const { return trainer_.rank_scalers_[rank_]; }

  void set_scalars(std::uint64_t update, kernels::StepScalars& scalars) const {
    const auto applied = static_cast<std::uint64_t>(scalars.optimizer_step);
    scalars.learning_rate = trainer_.schedule_.rate(applied);
    trainer_.settings_.optimizer.apply(scalars);
    const auto momenta = trainer_.schedule_.momenta(applied);
    if (momenta && has_betas(trainer_.plan_.training.optimizer)) {
      scalars.beta1 = momenta->beta1;
      scalars.beta2 = momenta->beta2;
    }
    scalars.weight_decay = trainer_.settings_.weight_decay;
    scalars.max_grad_norm = trainer_.settings_.max_grad_norm;
    scalars.valid_tokens = trainer_.batches_.valid_labels(update);
    scalars.inverse_valid_tokens = scalars.valid_tokens > 0 ? 1 / static_cast<double>(scalars.valid_tokens) : 0;
    if (trainer_.scales_loss()) {
      scalars.loss_scale = scaler().scale();
      scalars.inverse_loss_scale = 1 / scalars.loss_scale;
    }
    scalars.loss_sum = 0;
    scalars.found_inf = 0;
  }

  Trainer& trainer_;
  std::uint64_t rank_;
};

Trainer::Trainer(const planner::Plan& plan, const TrainSettings& settings, const Batches& batches,
                 const WeightSource& weights, const Schedule& schedule, ProcessGroup* processes)
    : plan_(plan),
      settings_(settings),
      batches_(batches),
      weights_(weights),
      schedule_(schedule),
      scaler_(settings.loss_scale),
      rank_scalers_(plan.partition.ranks, scaler_),
      processes_(processes) {
  refuse_what_is_missing(plan);
  if (settings.steps > 0) refuse_growing_momentum(schedule, settings.steps - 1, plan.training.optimizer);
  std::optional<Checkpoint> checkpoint;
  if (settings_.checkpoint_dir && is_leader())
    prepare_checkpoint_directory(*settings_.checkpoint_dir, settings_.resume, checkpoint_bytes(plan));
  meet();
  if (settings_.resume) {
    if (!settings_.checkpoint_dir)
      throw Error(ErrorCode::kUsage, "--resume needs --checkpoint-dir").at({.key = "--resume"});
    checkpoint.emplace(*settings_.checkpoint_dir);
    checkpoint->check_matches(plan);
  }
  const auto make_hooks = [this](std::uint64_t rank) { return std::make_unique<Hooks>(*this, rank); };
  if (plan.training.backend == planner::BackendKind::kCuda) {
    ranks_ = std::make_unique<DeviceRanks>(plan, make_hooks, settings.device, settings.use_graphs);
  } else {
    const ExecutorOptions options{.threads = settings.threads, .poison = settings.poison, .profile = settings.profile};
    ranks_ = std::make_unique<RankSet>(plan, make_hooks, options, processes_);
  }
  reports_ = std::make_unique<Reports>(ranks_->stop());
  if (processes_ != nullptr) watch_ = std::make_unique<FailureWatch>(processes_->control(), ranks_->stop());
  ranks_->run_phase("init");
  if (checkpoint) restore(*checkpoint);
}

void Trainer::restore(const Checkpoint& checkpoint) {
  for (std::size_t r = 0; r < ranks_->size(); ++r) {
    ranks_->restore(r, [&](const GroupState& group) { checkpoint.restore(plan_, group); });
    kernels::StepScalars scalars = ranks_->scalars(r);
    scalars.optimizer_step = checkpoint.manifest().optimizer_step;
    ranks_->set_scalars(r, scalars);
  }
  done_ = checkpoint.manifest().updates;
  last_loss_ = checkpoint.manifest().loss;
  if (!scales_loss() || !checkpoint.manifest().loss_scaler) return;
  scaler_.restore(*checkpoint.manifest().loss_scaler);
  for (LossScaler& scaler : rank_scalers_) scaler = scaler_;
}

Trainer::~Trainer() = default;

void Trainer::meet() {
  if (processes_ != nullptr) processes_->control().barrier();
}

std::string Trainer::from_leader(const std::string& text) {
  return processes_ == nullptr ? text : processes_->control().broadcast(text);
}

std::vector<double> Trainer::of_all_ranks(const std::vector<double>& values) {
  if (processes_ == nullptr) return values;
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  std::vector<double> all;
  for (const std::string& text : processes_->control().all_gather({bytes, values.size() * sizeof(double)})) {
    ZP_CHECK(text.size() == values.size() * sizeof(double));
    all.resize(all.size() + values.size());
    std::memcpy(all.data() + all.size() - values.size(), text.data(), text.size());
  }
  return all;
}

bool Trainer::is_interrupted(const std::atomic<bool>& interrupt) {
  if (interrupted_) return true;
  interrupted_ = processes_ == nullptr ? interrupt.load() : processes_->control().any(interrupt.load());
  return interrupted_;
}

TrainSummary Trainer::train(const OnStep& on_step, const std::atomic<bool>& interrupt) {
  TrainSummary summary;
  const std::uint64_t first = done_;
  while (done_ < settings_.steps && !is_interrupted(interrupt)) {
    std::uint64_t end = settings_.steps;
    const bool saves = settings_.checkpoint_dir && settings_.checkpoint_every > 0;
    if (saves) end = std::min(end, (done_ / settings_.checkpoint_every + 1) * settings_.checkpoint_every);
    run_updates(end, on_step, interrupt);
    if (saves && done_ < settings_.steps && !is_interrupted(interrupt)) summary.checkpoint = save();
  }
  summary.interrupted = interrupted_ && done_ < settings_.steps;
  summary.steps = done_ - first;
  summary.tokens = summary.steps * plan_.tokens_per_update();
  if (summary.steps > 0) summary.loss = last_loss_;
  if (settings_.checkpoint_dir && summary.steps > 0) summary.checkpoint = save();
  summary.record = ranks_->record();
  summary.profile = ranks_->profile();
  if (!step_times_.empty()) {
    std::vector<double> times(step_times_.begin() + (step_times_.size() > 1 ? 1 : 0), step_times_.end());
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    summary.median_step_s = times[times.size() / 2];
    summary.record.step = Seconds(*summary.median_step_s);
    summary.record.tokens_per_s = static_cast<double>(plan_.tokens_per_update()) / *summary.median_step_s;
  }
  measure_memory(summary);
  return summary;
}

void Trainer::run_updates(std::uint64_t end, const OnStep& on_step, const std::atomic<bool>& interrupt) {
  UpdateGate gate;
  std::uint64_t approved = std::min(end, done_ + kUpdatesAhead);
  gate.approve(approved - done_);
  ranks_->start_updates(done_, gate);
  try {
    Clock::time_point previous = Clock::now();
    while (done_ < approved) {
      const Reports::Entry* entry = reports_->next(done_);
      if (entry == nullptr) break;
      const Reports::Entry now = *entry;
      if (approved < end && !is_interrupted(interrupt)) {
        gate.approve(1);
        ++approved;
      }
      report_step(now.scalars, std::chrono::duration<double>(now.when - previous).count(), on_step);
      previous = now.when;
    }
  } catch (...) {
    gate.close();
    ranks_->finish_updates();
    throw;
  }
  gate.close();
  ranks_->finish_updates();
}

void Trainer::report_step(const kernels::StepScalars& scalars, double step_s, const OnStep& on_step) {
  StepReport report;
  report.step = ++done_;
  report.loss = scalars.loss_sum * scalars.inverse_valid_tokens;
  report.learning_rate = scalars.learning_rate;
  report.grad_norm = scalars.grad_norm;
  report.skipped = scalars.found_inf != 0;
  report.loss_scale = scalars.loss_scale;
  report.scales_loss = scales_loss();
  report.step_s = step_s;
  report.tokens_per_s = static_cast<double>(plan_.tokens_per_update()) / report.step_s;
  last_loss_ = report.loss;
  step_times_.push_back(report.step_s);
  on_step(report);
  if (scales_loss() && !scaler_.update(report.skipped)) throw no_scale_left(report);
}

std::filesystem::path Trainer::save() {
  Manifest manifest;
  manifest.updates = done_;
  manifest.tokens = done_ * plan_.tokens_per_update();
  manifest.optimizer_step = ranks_->scalars(0).optimizer_step;
  manifest.seed = settings_.seed;
  manifest.loss = last_loss_;
  if (scales_loss()) manifest.loss_scaler = scaler_.state();
  const std::filesystem::path directory = *settings_.checkpoint_dir;
  std::unique_ptr<CheckpointFolder> folder;
  if (is_leader()) folder = std::make_unique<CheckpointFolder>(plan_, directory, manifest);
  const std::string temporary = from_leader(folder ? folder->temporary_name() : "");
  writer_ = std::make_unique<CheckpointWriter>(plan_, directory / temporary, ranks_->first_rank(), ranks_->size());
  try {
    ranks_->run_phase("save");
    writer_->finish();
    writer_.reset();
  } catch (...) {
    writer_.reset();
    throw;
  }
  meet();  // all ranks' files are on the disk
  return from_leader(folder ? folder->publish(settings_.keep).string() : "");
}

EvalSummary Trainer::evaluate(std::uint64_t passes) {
  EvalSummary summary;
  double loss = 0;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    // With one pass an update, each "update" of the data is one evaluation pass of all ranks.
    ranks_->run_phase("eval", {pass, 0});
    std::vector<double> sums;
    for (std::size_t r = 0; r < ranks_->size(); ++r) sums.push_back(ranks_->scalars(r).loss_sum);
    for (const double sum : of_all_ranks(sums)) loss += sum;
    summary.tokens += static_cast<std::uint64_t>(ranks_->scalars(0).valid_tokens);
  }
  summary.loss = summary.tokens > 0 ? loss / static_cast<double>(summary.tokens) : 0;
  return summary;
}

void Trainer::measure_memory(TrainSummary& summary) const {
  summary.device_use = ranks_->device_use();
  for (std::size_t r = 0; r < ranks_->size(); ++r) {
    for (const auto& [tier, name] : planner::kNamesOf<planner::Tier>) {
      const auto t = static_cast<std::size_t>(tier);
      summary.planned[t] += plan_.tier(tier).arena;
      summary.used[t] += ranks_->used(r, tier);
      summary.written[t] += ranks_->written(r, tier);
    }
  }
}

}  // namespace zeroplan::runtime
