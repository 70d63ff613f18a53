#include <algorithm>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/run_flags.h"
#include "models/load_model.h"
#include "reports/estimate_report.h"

namespace zeroplan::cli {
namespace {

using planner::Framework;
using planner::Offload;
using planner::OffloadPlace;
using planner::Strategy;

/// Offloads worth a row of their own where the user gave none.
std::vector<Strategy> useful_offloads(const Strategy& base, Framework framework) {
  std::vector<Strategy> rows{base};
  const bool can = (framework == Framework::kDeepspeed || framework == Framework::kNative) && base.stage >= 1;
  Strategy s = base;
  if (can) {
    s.offload_optimizer = {OffloadPlace::kCpu, 1};
    rows.push_back(s);
  }
  if ((can && base.stage == 3) || framework == Framework::kFsdp2) {
    s.offload_param = {OffloadPlace::kCpu, 1};
    rows.push_back(s);
  }
  return rows;
}

/// `estimate MODEL`
class EstimateCommand : public Command {
 public:
  std::string name() const override { return "estimate"; }
  std::string description() const override {
    return "what a training run needs on each tier, natively or in another framework";
  }

  void add_flags(CLI::App& app) override {
    app.add_option("MODEL", model_, "a folder with config.json, a config file, a .safetensors file, or a preset")
        ->required();
    app.add_flag("--tensors", tensors_, "list every tensor");
    app.add_option("--load-dtype", load_dtype_, "fp32, bf16 or fp16 (the config's): type in which weights are read");
    app.add_option("--format", format_, "table or deepspeed (table)");
    flags_.add_to(app);
  }

  Answer run(const GlobalOptions&) override {
    const models::Model model = models::load_model(model_);
    const RunRequest request = flags_.resolve(&model);
    if (format_ != "table" && format_ != "deepspeed") {
      throw Error(ErrorCode::kUsage, fmt::format("--format {}: expected table or deepspeed", format_))
          .at({.key = "--format"});
    }
    const planner::TrainingSpec& spec = request.training;
    const simulator::TrainedParameters trained = simulator::trained_parameters(model, spec);

    reports::EstimateReport report;
    report.model = &model;
    report.summary = models::summarise(model);
    report.trainable = trained.trainable(model);
    report.trained = trained.trained;
    report.with_tensors = tensors_;
    report.spec = spec;
    report.machine = request.machine ? &*request.machine : nullptr;
    report.deepspeed = simulator::deepspeed_table(report.summary.total, report.summary.largest_module,
                                                  spec.ranks_per_node(), spec.nodes);
    report.load.dtype = load_dtype(model);
    report.load.one_loader = report.summary.total * report.load.dtype;
    report.load.every_rank = report.load.one_loader * spec.ranks_per_node();
    report.notes = request.notes;
    report.notes.insert(report.notes.end(), model.notes.begin(), model.notes.end());
    report.notes.emplace_back(
        "model states leave out activations, temporary buffers and the allocator's own overhead; see the peaks");

    const Strategy base = request.fixed.over_defaults();
    report.persistence_threshold = base.param_persistence_threshold;
    for (const std::uint64_t stage : stages_of(request)) {
      Strategy s = base;
      s.stage = stage;
      report.stage3 = report.stage3 || stage == 3;
      const bool offload_given =
          request.fixed.offload_optimizer || request.fixed.offload_param || request.fixed.offload_gradients;
      for (const Strategy& row : offload_given ? std::vector{s} : useful_offloads(s, spec.framework)) {
        report.states.push_back({row, simulator::model_states(model, trained, spec, row)});
      }
      add_peak(report, model, trained, s, flags_.given("--budget").has_value());
    }
    Answer answer;
    answer.document = reports::estimate_document(report);
    answer.text = format_ == "deepspeed" ? deepspeed_text(report) : reports::estimate_text(report);
    return answer;
  }

 private:
  DType load_dtype(const models::Model& model) const {
    if (load_dtype_.empty()) return model.checkpoint_dtype;
    const auto type = parse_dtype(load_dtype_);
    if (!type || (*type != DType::kFp32 && *type != DType::kBf16 && *type != DType::kFp16)) {
      throw Error(ErrorCode::kUsage, fmt::format("--load-dtype {}: expected fp32, bf16 or fp16", load_dtype_))
          .at({.key = "--load-dtype"});
    }
    return *type;
  }

  /// A peak, or a note why there is none.
  static void add_peak(reports::EstimateReport& report, const models::Model& model,
                       const simulator::TrainedParameters& trained, const Strategy& strategy, bool budget_given) {
    if (report.spec.framework == Framework::kNative) {
      add_once(report.notes, "peaks of native runs are those of the plan: see `zeroplan plan`");
      return;
    }
    try {
      const simulator::ProfileRequest request{model, trained, report.spec, strategy, report.machine, {}};
      reports::PeakRow row{.strategy = strategy, .peak = simulator::predict_peak(request), .budget = std::nullopt};
      if (budget_given) row.budget = simulator::answer_for_budget(request, row.peak, *report.machine->device_bytes);
      report.peaks.push_back(std::move(row));
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      add_once(report.notes, "no peaks: " + e.message());
    }
  }

  static void add_once(std::vector<std::string>& notes, const std::string& note) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }

  static std::string deepspeed_text(const reports::EstimateReport& report) {
    std::string text;
    for (const std::uint64_t stage : {std::uint64_t{2}, std::uint64_t{3}}) {
      text += simulator::deepspeed_table_text(stage, report.summary.total, report.summary.largest_module,
                                              report.spec.ranks_per_node(), report.spec.nodes);
    }
    return text + reports::beside_deepspeed_text(report);
  }

  std::string model_;
  bool tensors_ = false;
  std::string load_dtype_;
  std::string format_ = "table";
  RunFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_estimate_command() {
  return std::make_unique<EstimateCommand>();
}

}  // namespace zeroplan::cli
