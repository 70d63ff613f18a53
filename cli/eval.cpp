#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/process_run.h"
#include "cli/train_flags.h"
#include "models/core/text.h"
#include "planner/plan_json.h"
#include "runtime/checkpoint/checkpoint_plan.h"

namespace zeroplan::cli {
namespace {

/// Passes over random data unless --steps says otherwise: it has no end.
constexpr std::uint64_t kRandomPasses = 10;

/// `eval SOURCE --data SOURCE`
class EvalCommand : public Command {
 public:
  std::string name() const override { return "eval"; }
  std::string description() const override { return "loss of a checkpoint on data, forward passes only"; }

  void add_flags(CLI::App& app) override {
    app.add_option("SOURCE", source_, "a checkpoint, or a plan with --checkpoint")->required();
    app.add_option("--checkpoint", checkpoint_, "the checkpoint, where SOURCE is a plan");
    flags_.add_data(app);
    flags_.add_backend(app);
  }

  Answer run(const GlobalOptions&) override {
    const bool is_plan = !std::filesystem::is_directory(source_);
    if (is_plan && checkpoint_.empty()) {
      throw Error(ErrorCode::kUsage, fmt::format("eval {}: a plan needs --checkpoint DIR", source_))
          .at({.file = source_});
    }
    const std::string folder = is_plan ? checkpoint_ : source_;
    const planner::Plan plan =
        is_plan ? planner::load_plan(source_) : runtime::plan_of_checkpoint(runtime::Checkpoint(source_));
    flags_.check_against(plan);
    flags_.set_checkpoint(folder);
    return run_as_processes(flags_.processes(plan), flags_.sameness(plan),
                            [&](runtime::ProcessGroup* processes) { return evaluate(plan, processes); });
  }

 private:
  Answer evaluate(const planner::Plan& plan, runtime::ProcessGroup* processes) const {
    const auto source = runtime::open_tokens(flags_.data(plan));
    const runtime::BatchShape shape{plan.partition.ranks, 1, plan.strategy.micro_batch, plan.training.seq};
    const runtime::Batches batches(*source, shape, flags_.seed(), flags_.data_name());
    const std::uint64_t whole = std::max<std::uint64_t>(1, batches.sequences() / (shape.ranks * shape.micro_batch));
    const std::uint64_t passes = flags_.steps().value_or(flags_.data_name() == "random" ? kRandomPasses : whole);
    runtime::TrainSettings settings = flags_.settings(plan, processes);
    settings.resume = true;
    const std::unique_ptr<kernels::Device> device = open_device_of(plan);
    settings.device = device.get();
    const auto weights = flags_.weights(plan.model);
    const auto schedule = runtime::make_schedule(flags_.schedule());
    runtime::Trainer trainer(plan, settings, batches, *weights, *schedule, processes);
    return answer(plan, trainer, passes);
  }

  static Answer answer(const planner::Plan& plan, runtime::Trainer& trainer, std::uint64_t passes) {
    const auto start = std::chrono::steady_clock::now();
    const runtime::EvalSummary summary = trainer.evaluate(passes);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    planner::RunRecord record = trainer.ranks().record();
    record.step = Seconds(seconds / static_cast<double>(passes));
    record.tokens_per_s = static_cast<double>(plan.tokens_per_pass() * plan.training.gpus * passes) / seconds;
    Answer answer;
    answer.document = {{"loss", summary.loss},
                       {"perplexity", std::exp(summary.loss)},
                       {"tokens", summary.tokens},
                       {"record", record.to_json()}};
    answer.text = fmt::format("loss {:.6f}, perplexity {:.4f}, {} tokens, {:.0f} tokens/s\n", summary.loss,
                              std::exp(summary.loss), format_count(summary.tokens), record.tokens_per_s);
    return answer;
  }

  std::string source_;
  std::string checkpoint_;
  TrainFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_eval_command() {
  return std::make_unique<EvalCommand>();
}

}  // namespace zeroplan::cli
