#include "cli/commands.h"

namespace zeroplan::cli {

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_plan_command());
  return commands;
}

}  // namespace zeroplan::cli
