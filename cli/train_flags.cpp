#include "cli/train_flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/features.h"
#include "models/core/cores.h"
#include "models/core/text.h"

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
  if (training.backend != planner::BackendKind::kCpu) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("back end {}: this build has cpu", planner::name_of(training.backend)))
        .hint(again + " --backend cpu");
  }
  if (training.comm != planner::CommKind::kLoopback) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("comm {}: this build has loopback", planner::name_of(training.comm)))
        .hint(again + " --comm loopback");
  }
  if (!rehearse_.empty())
    throw Error(ErrorCode::kUnsupported, "--rehearse: this build runs all ranks of a plan").at({.key = "--rehearse"});
  if (!rendezvous_.empty()) {
    throw refused("--rendezvous", rendezvous_, "nothing with comm loopback: its ranks are threads of one process",
                  "leave it out");
  }
}

int TrainFlags::threads_of(const planner::Plan& plan) const {
  if (threads_.empty()) {
    const std::uint64_t cores = usable_cores();
    return static_cast<int>(std::max<std::uint64_t>(1, cores / plan.training.gpus));
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

runtime::TrainSettings TrainFlags::settings(const planner::Plan& plan) const {
  runtime::TrainSettings settings;
  settings.steps = steps().value_or(kDefaultSteps);
  settings.seed = seed();
  settings.weight_decay = number_from(decay_, "--weight-decay", 0);
  settings.max_grad_norm = number_from(clip_, "--grad-clip", 0);
  settings.threads = threads_of(plan);
  settings.loss_scale = loss_scale_.settings(plan.training.precision);
  if (!checkpoint_dir_.empty()) settings.checkpoint_dir = checkpoint_dir_;
  settings.checkpoint_every = parse_count(every_, "--checkpoint-every");
  settings.keep = parse_count(keep_, "--keep");
  settings.resume = resume_;
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

Json tier_bytes(const std::array<Bytes, planner::kTierCount>& bytes) {
  const auto of = [&](planner::Tier tier) { return bytes[static_cast<std::size_t>(tier)]; };
  return {{"device", of(planner::Tier::kDevice).count()},
          {"host", (of(planner::Tier::kHost) + of(planner::Tier::kDevice)).count()},
          {"disk", of(planner::Tier::kDisk).count()}};
}

}  // namespace zeroplan::cli
