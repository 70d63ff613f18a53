#include <fmt/format.h>

#include "cli/commands.h"
#include "models/core/file_io.h"
#include "planner/plan_json.h"
#include "reports/perfetto.h"
#include "reports/record_text.h"
#include "simulator/event_simulator.h"

namespace zeroplan::cli {
namespace {

/// `simulate PLAN [--machine MACHINE] [--trace FILE]`
class SimulateCommand : public Command {
 public:
  std::string name() const override { return "simulate"; }
  std::string description() const override { return "predicts time and memory of one update of a plan"; }

  void add_flags(CLI::App& app) override {
    app.add_option("PLAN", plan_, "a file written by plan")->required();
    app.add_option("--machine", machine_, "rates of this machine instead of the plan's own");
    app.add_option("--trace", trace_, "file for a trace that ui.perfetto.dev loads");
  }

  Answer run(const GlobalOptions&) override {
    planner::Plan plan = planner::load_plan(plan_);
    if (!machine_.empty()) plan.machine = planner::parse_machine(machine_);
    const planner::CostModel costs(plan.machine, plan.training);
    const simulator::Simulation simulation = simulator::simulate(plan, costs, {.keeps_timeline = !trace_.empty()});
    Answer answer;
    answer.document["record"] = simulation.record.to_json();
    answer.text = reports::record_text(simulation.record);
    if (!trace_.empty()) {
      write_file_atomically(
          trace_, reports::perfetto_trace(plan, simulation).dump(-1, ' ', false, Json::error_handler_t::replace));
      answer.text += fmt::format("trace written to {}; open it in ui.perfetto.dev\n", trace_);
    }
    return answer;
  }

 private:
  std::string plan_;
  std::string machine_;
  std::string trace_;
};

}  // namespace

std::unique_ptr<Command> make_simulate_command() {
  return std::make_unique<SimulateCommand>();
}

}  // namespace zeroplan::cli
