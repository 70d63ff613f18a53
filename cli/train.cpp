#include <algorithm>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/process_run.h"
#include "cli/step_log.h"
#include "cli/train_flags.h"
#include "models/core/text.h"
#include "planner/plan_json.h"
#include "runtime/interrupt.h"
#include "runtime/process_memory.h"
#include "simulator/evaluator.h"

namespace zeroplan::cli {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// What the card holds: the driver's context, the libraries, the arenas.
Json device_json(const runtime::TrainSummary& summary) {
  if (!summary.device_use) return nullptr;
  return {{"context_bytes", summary.device_use->at_start},
          {"library_bytes", summary.device_use->libraries},
          {"arena_bytes", summary.device_use->arenas},
          {"taken_bytes", summary.device_use->now}};
}

Json summary_json(const runtime::TrainSummary& summary, int threads, double predicted_step_s) {
  const auto resident = runtime::resident_peak();
  const bool device_is_host = !summary.device_use.has_value();
  return {{"summary",
           {{"steps", summary.steps},
            {"tokens", summary.tokens},
            {"loss", or_null(summary.loss)},
            {"planned", tier_bytes(summary.planned, device_is_host)},
            {"used", tier_bytes(summary.used, device_is_host)},
            {"written", tier_bytes(summary.written, device_is_host)},
            {"process",
             {{"resident_peak_bytes", resident ? Json(resident->count()) : Json(nullptr)},
              {"device_process_bytes", summary.device_use ? Json(summary.device_use->now) : Json(nullptr)},
              {"device", device_json(summary)}}},
            {"threads", threads},
            {"predicted_step_s", predicted_step_s},
            {"measured_step_s", or_null(summary.median_step_s)},
            {"record", summary.record.to_json()},
            {"checkpoint", summary.checkpoint ? Json(summary.checkpoint->string()) : Json(nullptr)},
            {"interrupted", summary.interrupted}}}};
}

/// Measured, of the first rank of this process.
Json profile_json(const std::vector<runtime::StepProfile::Row>& rows) {
  Json list = Json::array();
  for (const runtime::StepProfile::Row& row : rows) {
    list.push_back({{"name", row.name}, {"calls", row.calls}, {"time_s", row.time.value()}});
  }
  return list;
}

std::string profile_text(const runtime::TrainSummary& summary) {
  Seconds all;
  for (const runtime::StepProfile::Row& row : summary.profile) all += row.time;
  std::string text = "  measured time of rank 0, an update\n";
  const auto updates = static_cast<double>(std::max<std::uint64_t>(summary.steps, 1));
  for (const runtime::StepProfile::Row& row : summary.profile) {
    text += fmt::format("    {:<24}{:>12}{:>8.1f} %  {:>8.1f} calls\n", row.name,
                        format_duration(Seconds(row.time.value() / updates)), 100 * (row.time / all),
                        static_cast<double>(row.calls) / updates);
  }
  return text;
}

/// The processes of a run, by rank, each with the most memory that it ever held.
Json ranks_json(runtime::ProcessGroup& processes) {
  const auto resident = runtime::resident_peak();
  const auto peaks = processes.control().all_gather(resident ? fmt::format("{}", resident->count()) : "");
  Json list = Json::array();
  for (std::uint64_t r = 0; r < processes.size(); ++r) {
    const runtime::Member& member = processes.member(r);
    list.push_back({{"rank", r},
                    {"host", member.endpoint.host},
                    {"process", member.process},
                    {"resident_peak_bytes", peaks[r].empty() ? Json(nullptr) : Json(parse_count(peaks[r], "VmHWM"))}});
  }
  return list;
}

std::string summary_text(const runtime::TrainSummary& summary, double predicted_step_s) {
  constexpr auto kDevice = static_cast<std::size_t>(planner::Tier::kDevice);
  std::string text = fmt::format("trained {} steps, {} tokens", summary.steps, format_count(summary.tokens));
  if (summary.loss) text += fmt::format(", last loss {:.4f}", *summary.loss);
  text += fmt::format("\n  device memory of all ranks: planned {}, used {}, written {}\n",
                      format_size(summary.planned[kDevice]), format_size(summary.used[kDevice]),
                      format_size(summary.written[kDevice]));
  if (const auto resident = runtime::resident_peak())
    text += fmt::format("  process: {} resident at most\n", format_size(*resident));
  if (const auto& use = summary.device_use) {
    text += fmt::format(
        "  card: {} taken = {} context + {} libraries + {} arenas + {} since\n", format_size(Bytes(use->now)),
        format_size(Bytes(use->at_start)), format_size(Bytes(use->libraries)), format_size(Bytes(use->arenas)),
        format_size(Bytes(use->now - std::min(use->now, use->at_start + use->libraries + use->arenas))));
  }
  if (summary.median_step_s) {
    text += fmt::format("  step: {} measured (median), {} predicted\n",
                        format_duration(Seconds(*summary.median_step_s)), format_duration(Seconds(predicted_step_s)));
  }
  if (!summary.profile.empty()) text += profile_text(summary);
  if (summary.checkpoint) text += fmt::format("  checkpoint: {}\n", summary.checkpoint->string());
  if (summary.interrupted) text += "  interrupted: go on with --resume\n";
  return text;
}

/// `train PLAN --data SOURCE`
class TrainCommand : public Command {
 public:
  std::string name() const override { return "train"; }
  std::string description() const override { return "executes a plan"; }

  void add_flags(CLI::App& app) override {
    app.add_option("PLAN", plan_, "a file written by plan")->required();
    flags_.add_data(app);
    flags_.add_training(app);
    flags_.add_backend(app);
  }

  Answer run(const GlobalOptions& options) override {
    const planner::Plan plan = planner::load_plan(plan_);
    flags_.check_against(plan);
    const runtime::InterruptFlag interrupt;
    return run_as_processes(flags_.processes(plan), flags_.sameness(plan), [&](runtime::ProcessGroup* processes) {
      return train(plan, options, processes, interrupt.flag());
    });
  }

 private:
  Answer train(const planner::Plan& plan, const GlobalOptions& options, runtime::ProcessGroup* processes,
               const std::atomic<bool>& interrupt) const {
    const std::unique_ptr<kernels::Device> device = open_device_of(plan);
    runtime::TrainSettings settings = flags_.settings(plan, processes);
    settings.device = device.get();
    const auto schedule = runtime::make_schedule(flags_.schedule());
    const auto source = runtime::open_tokens(flags_.data(plan));
    const runtime::Batches batches(
        *source, {plan.partition.ranks, plan.strategy.accumulation, plan.strategy.micro_batch, plan.training.seq},
        flags_.seed(), flags_.data_name());
    const auto weights = flags_.weights(plan.model);
    const double predicted_step_s = simulator::SimulationEvaluator().evaluate(plan).step.value();
    std::optional<runtime::Trainer> trainer;
    try {
      trainer.emplace(plan, settings, batches, *weights, *schedule, processes);
    } catch (const Error& error) {
      // A model or precision that the runtime lacks is an answer, not a mistake of the caller.
      if (error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kDevice) throw RunFailed(error);
      throw;
    }
    // Of several processes rank 0 has the log and the progress.
    GlobalOptions log_options = options;
    const bool is_first = processes == nullptr || processes->rank() == 0;
    log_options.quiet = log_options.quiet || !is_first;
    StepLog log(is_first ? flags_.log_path() : "", log_options, trainer->resumed_updates(), settings.steps);
    try {
      const runtime::TrainSummary summary =
          trainer->train([&](const runtime::StepReport& report) { log.step(report); }, interrupt);
      Answer answer;
      answer.document = summary_json(summary, settings.threads, predicted_step_s);
      if (processes != nullptr) answer.document["summary"]["ranks"] = ranks_json(*processes);
      if (!summary.profile.empty()) answer.document["summary"]["profile"] = profile_json(summary.profile);
      answer.text = summary_text(summary, predicted_step_s);
      answer.exit_code = summary.interrupted ? kExitNo : kExitDone;
      log.summary(answer.document);
      return answer;
    } catch (const Error& error) {
      throw RunFailed(error);
    }
  }

  std::string plan_;
  TrainFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() {
  return std::make_unique<TrainCommand>();
}

}  // namespace zeroplan::cli
