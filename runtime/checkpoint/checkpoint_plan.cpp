#include "runtime/checkpoint/checkpoint_plan.h"

#include "models/load_model.h"
#include "planner/plan_maker.h"

namespace zeroplan::runtime {

planner::Plan plan_of_checkpoint(const Checkpoint& checkpoint) {
  const models::Model model = models::build_model(checkpoint.config(), checkpoint.model_name());
  const Json manifest = read_json_file(checkpoint.folder() / "manifest.json");
  planner::TrainingSpec training = planner::TrainingSpec::from_json(
      JsonView(manifest, (checkpoint.folder() / "manifest.json").string()).at("training"));
  training.comm = planner::CommKind::kLoopback;
  training.backend = planner::BackendKind::kCpu;
  planner::Strategy strategy;
  strategy.param_persistence_threshold = checkpoint.persistence_threshold();
  planner::Machine machine = planner::parse_machine("cpu");
  machine.gpus = checkpoint.ranks();
  machine.device_bytes.reset();
  return planner::make_plan(model, machine, training, strategy);
}

}  // namespace zeroplan::runtime
