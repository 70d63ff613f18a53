#include <chrono>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/export_flag.h"
#include "cli/run_flags.h"
#include "models/core/file_io.h"
#include "models/core/text.h"
#include "models/load_model.h"
#include "planner/plan_json.h"
#include "reports/framework_report.h"
#include "reports/tune_report.h"
#include "simulator/evaluator.h"

namespace zeroplan::cli {
namespace {

/// `tune MODEL --machine MACHINE`
class TuneCommand : public Command {
 public:
  std::string name() const override { return "tune"; }
  std::string description() const override { return "the fastest strategies that fit a machine, ranked, and why"; }

  void add_flags(CLI::App& app) override {
    app.add_option("MODEL", model_, "a folder with config.json, a config file, a .safetensors file, or a preset")
        ->required();
    app.add_option("--top", top_, "how many strategies are ranked (10)");
    app.add_option("-o,--output", output_, "file to which the plan of rank 1 is written");
    export_.add_to(app);
    flags_.add_to(app);
  }

  Answer run(const GlobalOptions&) override {
    const auto begin = std::chrono::steady_clock::now();
    planner::TuneOptions options;
    options.top = parse_count(top_, "--top");
    if (options.top == 0 || options.top > kMostRanked) {
      throw Error(ErrorCode::kUsage, fmt::format("--top {}: expected 1 to {}", top_, kMostRanked))
          .at({.key = "--top", .value = top_});
    }
    export_.parse();
    const models::Model model = models::load_model(model_);
    const RunRequest request = flags_.resolve(&model);
    if (!request.machine) {
      throw Error(ErrorCode::kUsage, "tune needs --machine")
          .hint("for example --machine h200,gpus=8 or --machine local");
    }
    if (request.training.framework != planner::Framework::kNative) return of_framework(model, request, options, begin);
    if (request.stages.size() > 1) options.grid.stages = request.stages;
    const simulator::SimulationEvaluator evaluator;
    const planner::TuneResult result =
        planner::tune(model, *request.machine, request.training, request.fixed, evaluator, options);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    const reports::TuneSubject subject{model, *request.machine, request.training, elapsed.count()};
    Answer answer;
    answer.document = reports::tune_document(result, subject);
    answer.text = reports::tune_text(result, subject);
    answer.exit_code = result.ranked.empty() ? kExitNo : kExitDone;
    if (!result.ranked.empty() && !output_.empty()) {
      write_file_atomically(output_, planner::plan_to_text(result.ranked.front().plan));
      answer.text += fmt::format("\n  plan of rank 1 written to {}\n", output_);
    }
    if (!result.ranked.empty() && export_.any()) {
      const planner::RankedPlan& best = result.ranked.front();
      answer.text += export_.write({model, *request.machine, request.training, best.plan.strategy,
                                    native_predictions(best.plan, best.predicted), std::nullopt});
    }
    return answer;
  }

 private:
  Answer of_framework(const models::Model& model, const RunRequest& request, const planner::TuneOptions& options,
                      std::chrono::steady_clock::time_point begin) const {
    if (!output_.empty()) {
      throw Error(ErrorCode::kUnsupported, "-o: only native runs have a plan file")
          .hint("--export writes settings for other frameworks");
    }
    const simulator::FrameworkRun run{model, *request.machine, request.training};
    const simulator::FrameworkSearch search =
        simulator::search_framework(run, request.fixed, stages_of(request), options.grid.micro_batches);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    Answer answer;
    answer.document = reports::framework_tune_document(run, search, options.top, elapsed.count());
    answer.text = reports::framework_tune_text(run, search, options.top);
    answer.exit_code = search.ranked.empty() ? kExitNo : kExitDone;
    if (!search.ranked.empty() && export_.any()) {
      const simulator::FrameworkPlan& best = search.ranked.front();
      answer.text += export_.write(
          {model, run.machine, run.training, best.strategy, reports::framework_predictions(best), std::nullopt});
    }
    return answer;
  }

  static constexpr std::uint64_t kMostRanked = 1000;

  std::string model_;
  std::string top_ = "10";
  std::string output_;
  ExportFlag export_;
  RunFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_tune_command() {
  return std::make_unique<TuneCommand>();
}

}  // namespace zeroplan::cli
