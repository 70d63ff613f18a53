#include "cli/train_flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/features.h"
#include "models/core/cores.h"
#include "models/core/text.h"
#include "planner/plan_json.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/device/device_library.h"

namespace zeroplan::cli {
namespace {

constexpr std::uint64_t kDefaultSteps = 10;

Error refused(const std::string& flag, const std::string& value, const std::string& expected, const std::string& hint) {
  return Error(ErrorCode::kUsage, fmt::format("{} {}: expected {}", flag, value, expected))
      .at({.key = flag, .value = value})
      .hint(hint);
}

std::map<std::string, std::string> parse_arguments(const std::string& text) {
  std::map<std::string, std::string> arguments;
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) throw refused("--schedule-args", item, "key=value,...", "");
    arguments[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return arguments;
}

double number_from(const std::string& text, const std::string& flag, double least) {
  const double value = parse_number(text, flag);
  if (value < least) throw refused(flag, text, fmt::format("at least {}", least), "");
  return value;
}

/// Seconds: a day.
constexpr double kLongestWait = 86'400;

double bounded_number_from(const std::string& text, const std::string& flag, double least, double most) {
  const double value = number_from(text, flag, least);
  if (value > most) throw refused(flag, text, fmt::format("{} to {}", least, most), "");
  return value;
}

}  // namespace

void TrainFlags::add_data(CLI::App& app) {
  app.add_option("--data", data_, "a .bin of token ids, a text file or folder (as bytes), or random")->required();
  app.add_option("--labels", labels_, "int32, one a token of the .bin; -100 = not counted");
  app.add_option("--seed", seed_, "of weights, random data and the data's beginning (0)");
  app.add_option("--steps", steps_, "updates in all (10); eval: passes (the whole data)");
}

void TrainFlags::add_backend(CLI::App& app) {
  app.add_option("--backend", backend_, "cpu or cuda (the plan's)");
  app.add_option("--ranks", ranks_, "the plan's number of ranks, said again");
  app.add_option("--comm", comm_, "loopback, mpi or nccl (the plan's)");
  app.add_option("--rendezvous", rendezvous_, "how processes meet: mpi, env, file:PATH or tcp:HOST:PORT");
  app.add_option("--rank", rank_, "of this process, with env, file and tcp (the variable RANK)");
  app.add_option("--rendezvous-timeout", rendezvous_timeout_, "seconds until all processes must have met (60)");
  app.add_option("--heartbeat-limit", heartbeat_limit_,
                 "seconds of silence after which a process counts as lost and the others end (10)");
  app.add_option("--threads", threads_, "per rank (the cores / the ranks on this host)");
  app.add_option("--rehearse", rehearse_, "play this rank of the plan's world alone");
  app.add_option("--disk-dir", disk_dir_, "where the disk tier lies");
}

void TrainFlags::add_training(CLI::App& app) {
  app.add_option("--init", init_, "a folder with safetensors, or random (random)");
  app.add_option("--lr", rate_, "learning rate (3e-4)");
  app.add_option("--weight-decay", decay_, "of all parameters (0.01)");
  app.add_option("--grad-clip", clip_, "largest gradient norm, 0 = no clipping (1)");
  optimizer_.add_to(app);
  app.add_option("--warmup-steps", warmup_, "of the schedules constant, linear and cosine (0)");
  app.add_option("--schedule", schedule_,
                 "constant, linear, cosine, WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest");
  app.add_option("--schedule-args", schedule_arguments_, "DeepSpeed's parameters of the schedule: key=value,...");
  loss_scale_.add(app);
  app.add_option("--checkpoint-dir", checkpoint_dir_, "where checkpoints are written");
  app.add_option("--checkpoint-every", every_, "updates between two checkpoints (0: at the end only)");
  app.add_option("--keep", keep_, "checkpoints that stay (0: all)");
  app.add_flag("--profile", profile_, "measure where the time goes, by kind of operation");
  app.add_flag("--resume", resume_, "go on from the last whole checkpoint of the folder");
  app.add_option("--log", log_, "file to which each step is written as a line of JSON");
}

void TrainFlags::check_against(const planner::Plan& plan) const {
  const planner::TrainingSpec& training = plan.training;
  const std::string again =
      fmt::format("make a plan for it: zeroplan plan {} --machine ... --gpus {}", plan.model.source, training.gpus);
  const std::string comm = comm_.empty() ? std::string(planner::name_of(training.comm)) : comm_;
  if (planner::parse_named<planner::CommKind>(comm, "--comm") != training.comm) {
    throw refused("--comm", comm, fmt::format("{}, the plan's", planner::name_of(training.comm)),
                  fmt::format("{} --comm {}", again, comm));
  }
  const std::string backend = backend_.empty() ? std::string(planner::name_of(training.backend)) : backend_;
  if (planner::parse_named<planner::BackendKind>(backend, "--backend") != training.backend) {
    throw refused("--backend", backend, fmt::format("{}, the plan's", planner::name_of(training.backend)),
                  fmt::format("{} --backend {}", again, backend));
  }
  if (!ranks_.empty() && parse_count(ranks_, "--ranks") != training.gpus) {
    throw refused("--ranks", ranks_, fmt::format("{}, the plan's gpus", training.gpus),
                  fmt::format("zeroplan plan {} --machine ... --gpus {}", plan.model.source, ranks_));
  }
  if (training.comm == planner::CommKind::kNccl) {
    throw Error(ErrorCode::kUnsupported, "comm nccl: this build has loopback and mpi").hint(again + " --comm mpi");
  }
  if (!rehearse_.empty())
    throw Error(ErrorCode::kUnsupported, "--rehearse: this build runs all ranks of a plan").at({.key = "--rehearse"});
  if (training.comm == planner::CommKind::kLoopback && (!rendezvous_.empty() || !rank_.empty())) {
    throw refused(rendezvous_.empty() ? "--rank" : "--rendezvous", rendezvous_.empty() ? rank_ : rendezvous_,
                  "nothing with comm loopback: its ranks are threads of one process", "leave it out");
  }
}

std::optional<runtime::ProcessSettings> TrainFlags::processes(const planner::Plan& plan) const {
  if (plan.training.comm == planner::CommKind::kLoopback) return std::nullopt;
  const auto rank = rank_.empty() ? std::nullopt : std::optional(parse_count(rank_, "--rank"));
  runtime::ProcessSettings settings;
  settings.rendezvous = runtime::parse_rendezvous(rendezvous_.empty() ? "mpi" : rendezvous_, rank, plan.training.gpus);
  settings.rendezvous.timeout = std::chrono::seconds(
      static_cast<std::int64_t>(bounded_number_from(rendezvous_timeout_, "--rendezvous-timeout", 1, kLongestWait)));
  settings.heartbeat.limit = std::chrono::milliseconds(
      static_cast<std::int64_t>(1000 * bounded_number_from(heartbeat_limit_, "--heartbeat-limit", 1, kLongestWait)));
  return settings;
}

Json TrainFlags::sameness(const planner::Plan& plan) const {
  const std::string text = planner::plan_to_json(plan).dump();
  return {{"the plan", runtime::checksum(std::as_bytes(std::span(text)))},
          {"--data", data_},
          {"--labels", labels_},
          {"--seed", seed_},
          {"--steps", steps_},
          {"--init", init_},
          {"--lr", rate_},
          {"--weight-decay", decay_},
          {"--grad-clip", clip_},
          {"--warmup-steps", warmup_},
          {"--schedule", schedule_},
          {"--schedule-args", schedule_arguments_},
          {"--checkpoint-dir", checkpoint_dir_},
          {"--checkpoint-every", every_},
          {"--keep", keep_},
          {"--resume", resume_}};
}

int TrainFlags::threads_of(const planner::Plan& plan, const runtime::ProcessGroup* processes) const {
  if (threads_.empty()) {
    const std::uint64_t cores = usable_cores();
    const std::uint64_t ranks = processes == nullptr ? plan.training.gpus : processes->ranks_on_host();
    return static_cast<int>(std::max<std::uint64_t>(1, cores / ranks));
  }
  const std::uint64_t n = parse_count(threads_, "--threads");
  if (n == 0 || n > 1024) throw refused("--threads", threads_, "1 to 1024", "");
  return static_cast<int>(n);
}

std::uint64_t TrainFlags::seed() const {
  return parse_count(seed_, "--seed");
}

std::optional<std::uint64_t> TrainFlags::steps() const {
  if (steps_.empty()) return std::nullopt;
  const std::uint64_t n = parse_count(steps_, "--steps");
  if (n == 0) throw refused("--steps", steps_, "at least 1", "");
  return n;
}

runtime::DataFlags TrainFlags::data(const planner::Plan& plan) const {
  return {.data = data_,
          .labels = labels_.empty() ? std::nullopt : std::optional(labels_),
          .vocabulary = plan.model.decoder ? plan.model.decoder->vocab : plan.model.vocab,
          .seed = seed()};
}

runtime::TrainSettings TrainFlags::settings(const planner::Plan& plan, const runtime::ProcessGroup* processes) const {
  runtime::TrainSettings settings;
  settings.steps = steps().value_or(kDefaultSteps);
  settings.seed = seed();
  settings.weight_decay = number_from(decay_, "--weight-decay", 0);
  settings.max_grad_norm = number_from(clip_, "--grad-clip", 0);
  settings.threads = threads_of(plan, processes);
  settings.loss_scale = loss_scale_.settings(plan.training.precision);
  if (!checkpoint_dir_.empty()) settings.checkpoint_dir = checkpoint_dir_;
  settings.checkpoint_every = parse_count(every_, "--checkpoint-every");
  settings.keep = parse_count(keep_, "--keep");
  settings.resume = resume_;
  settings.profile = profile_;
  settings.optimizer = optimizer_.settings(plan.training.optimizer);
  if (settings.checkpoint_every > 0 && checkpoint_dir_.empty()) {
    throw Error(ErrorCode::kUsage, "--checkpoint-every needs --checkpoint-dir").at({.key = "--checkpoint-every"});
  }
  return settings;
}

runtime::ScheduleSettings TrainFlags::schedule() const {
  return {.name = schedule_,
          .peak_rate = number_from(rate_, "--lr", 0),
          .warmup_steps = parse_count(warmup_, "--warmup-steps"),
          .total_steps = steps().value_or(kDefaultSteps),
          .arguments = parse_arguments(schedule_arguments_)};
}

std::unique_ptr<runtime::WeightSource> TrainFlags::weights(const models::Model& model) const {
  if (init_ == "random") return runtime::random_weights(model, seed());
  return runtime::safetensors_weights(model, init_);
}

std::unique_ptr<kernels::Device> open_device_of(const planner::Plan& plan) {
  if (plan.training.backend == planner::BackendKind::kCpu) return nullptr;
  const runtime::DeviceLibrary library(runtime::DeviceLibrary::usual_paths());
  try {
    return library.open_device({});
  } catch (const Error& error) {
    throw RunFailed(error);
  }
}

Json tier_bytes(const std::array<Bytes, planner::kTierCount>& bytes, bool device_is_host) {
  const auto of = [&](planner::Tier tier) { return bytes[static_cast<std::size_t>(tier)]; };
  return {{"device", of(planner::Tier::kDevice).count()},
          {"host", (of(planner::Tier::kHost) + (device_is_host ? of(planner::Tier::kDevice) : Bytes())).count()},
          {"disk", of(planner::Tier::kDisk).count()}};
}

}  // namespace zeroplan::cli
