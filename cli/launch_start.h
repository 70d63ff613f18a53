// The real start behind `launch`: what a plan needs to be started, and a child process that gets the signals of this
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/deepspeed/launch_line.h"
#include "planner/plan.h"

namespace zeroplan::cli {

/// What `launch` has to know of the plan that its ranks will run.
struct PlannedRun {
  std::uint64_t ranks = 1;
  planner::CommKind comm = planner::CommKind::kLoopback;
  planner::BackendKind backend = planner::BackendKind::kCpu;
};

/// Opens the plan that a command ("train", PLAN, flags) names.
/// \throws Error{kUsage} if it names none; whatever reading a plan throws
PlannedRun planned_run(const std::vector<std::string>& command);

/// Whether these resources can run the plan in this build.
/// \throws Error{kUsage} for another number of ranks, or several hosts for a plan whose ranks are threads of one
/// process; Error{kUnsupported} for a transport that this build lacks
void check_start(const PlannedRun& plan, const planner::deepspeed::Resources& resources);

/// Starts the line, waits, and returns its exit code (128 + signal if one ended it). The first SIGTERM or SIGINT makes
/// the ranks end their step and save, a second one ends the child. \throws Error{kIo} if nothing can be started
int run_line(const planner::deepspeed::LaunchLine& line);

}  // namespace zeroplan::cli
