#include "cli/commands.h"

namespace zeroplan::cli {

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_estimate_command());
  commands.push_back(make_plan_command());
  commands.push_back(make_tune_command());
  commands.push_back(make_simulate_command());
  commands.push_back(make_train_command());
  commands.push_back(make_eval_command());
  commands.push_back(make_check_command());
  commands.push_back(make_launch_command());
  commands.push_back(make_calibrate_command());
  commands.push_back(make_convert_command());
  commands.push_back(make_pack_command());
  return commands;
}

}  // namespace zeroplan::cli
