#include "cli/commands.h"

namespace zeroplan::cli {

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  return commands;
}

}  // namespace zeroplan::cli
