// The commands, one file each.
#pragma once

#include <memory>
#include <vector>

#include "cli/command.h"

namespace zeroplan::cli {

std::unique_ptr<Command> make_estimate_command();
std::unique_ptr<Command> make_plan_command();
std::unique_ptr<Command> make_tune_command();
std::unique_ptr<Command> make_simulate_command();
std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_eval_command();
std::unique_ptr<Command> make_check_command();
std::unique_ptr<Command> make_launch_command();
std::unique_ptr<Command> make_calibrate_command();
std::unique_ptr<Command> make_convert_command();
std::unique_ptr<Command> make_pack_command();

/// All of them, in the order of the help text.
std::vector<std::unique_ptr<Command>> make_commands();

/// The whole program: parses, runs, prints. Returns the exit code.
int run_program(int argc, const char* const* argv);

}  // namespace zeroplan::cli
