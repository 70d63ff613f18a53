#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/export_flag.h"
#include "cli/run_flags.h"
#include "models/core/file_io.h"
#include "models/load_model.h"
#include "models/parameter_summary.h"
#include "planner/plan_json.h"
#include "reports/framework_report.h"
#include "reports/plan_report.h"
#include "simulator/evaluator.h"

namespace zeroplan::cli {
namespace {

Json params_json(const models::Model& model) {
  const models::ParameterSummary s = models::summarise(model);
  return {{"total", s.total.count()},
          {"trainable", s.trainable.count()},
          {"with_tied_twice", s.with_tied_twice.count()},
          {"active", s.active.count()},
          {"largest_module", s.largest_module.count()},
          {"largest_module_name", s.largest_module_name},
          {"tensor_count", s.tensor_count}};
}

/// The persistent states of the plan, as the row of `states` that it is.
Json states_json(const planner::Plan& plan) {
  Bytes device;
  for (const planner::Buffer& buffer : plan.buffers) {
    if (buffer.always || buffer.name.ends_with(" / gradients") || buffer.name.ends_with(" / gradient shard"))
      device += buffer.bytes;
  }
  return Json::array({{{"framework", "native"},
                       {"stage", plan.strategy.stage},
                       {"offload_optimizer", "none"},
                       {"offload_param", "none"},
                       {"gpu_bytes", device.count()},
                       {"cpu_bytes", 0},
                       {"nvme_bytes", 0}}});
}

/// `plan MODEL --machine MACHINE [-o plan.json]`
class PlanCommand : public Command {
 public:
  std::string name() const override { return "plan"; }
  std::string description() const override { return "whether a training run fits a machine, and how; writes the plan"; }

  void add_flags(CLI::App& app) override {
    app.add_option("MODEL", model_, "a folder with config.json, a config file, a .safetensors file, or a preset")
        ->required();
    app.add_option("-o,--output", output_, "file to which the plan is written");
    export_.add_to(app);
    flags_.add_to(app);
  }

  Answer run(const GlobalOptions&) override {
    export_.parse();
    const models::Model model = models::load_model(model_);
    RunRequest request = flags_.resolve(&model);
    if (!request.machine) {
      throw Error(ErrorCode::kUsage, "plan needs --machine")
          .hint("for example --machine h200,gpus=8 or --machine local");
    }
    if (request.stages.size() > 1) {
      throw Error(ErrorCode::kUsage, "--stage: plan takes one stage; leave it out to have it chosen")
          .at({.key = "--stage"});
    }
    if (request.training.framework != planner::Framework::kNative) return of_framework(model, request);
    const simulator::SimulationEvaluator evaluator;
    const planner::PlanChoice choice =
        planner::choose_plan(model, *request.machine, request.training, request.fixed, evaluator);
    Answer answer;
    answer.document = reports::plan_document(choice, params_json(model), states_json(choice.plan));
    answer.text = reports::plan_text(choice);
    for (const std::string& note : request.notes) {
      answer.document["notes"].push_back(note);
      answer.text += fmt::format("    note: {}\n", note);
    }
    const bool fits = choice.fit.verdict != planner::Verdict::kNo;
    answer.exit_code = fits ? kExitDone : kExitNo;
    if (fits && !output_.empty()) {
      write_file_atomically(output_, planner::plan_to_text(choice.plan));
      answer.text += fmt::format("\n  plan written to {}\n", output_);
    }
    if (fits && export_.any()) {
      answer.text += export_.write({model, *request.machine, request.training, choice.plan.strategy,
                                    native_predictions(choice.plan, choice.predicted), std::nullopt});
    }
    return answer;
  }

 private:
  /// The best of the open decisions, or what is closest, and what would make it fit.
  Answer of_framework(const models::Model& model, const RunRequest& request) const {
    if (!output_.empty()) {
      throw Error(ErrorCode::kUnsupported, "-o: only native runs have a plan file")
          .hint("--export writes settings for other frameworks");
    }
    const simulator::FrameworkRun run{model, *request.machine, request.training};
    simulator::FrameworkSearch search = simulator::search_framework(run, request.fixed, stages_of(request), {1});
    const bool fits = !search.ranked.empty();
    const simulator::FrameworkPlan& plan = fits ? search.ranked.front() : search.rejected.front();
    std::vector<simulator::FrameworkAlternative> alternatives;
    if (plan.fit.verdict != planner::Verdict::kYes) alternatives = simulator::framework_alternatives(run, plan);
    Answer answer;
    answer.document = reports::framework_plan_document(run, plan, alternatives);
    answer.text = reports::framework_plan_text(run, plan, alternatives);
    answer.exit_code = fits ? kExitDone : kExitNo;
    if (fits && export_.any()) {
      answer.text += export_.write(
          {model, run.machine, run.training, plan.strategy, reports::framework_predictions(plan), std::nullopt});
    }
    return answer;
  }

  std::string model_;
  std::string output_;
  ExportFlag export_;
  RunFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() {
  return std::make_unique<PlanCommand>();
}

}  // namespace zeroplan::cli
