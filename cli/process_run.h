// A command that several processes execute together. Purpose: they meet, prove that they were started alike, answer
// with one voice and fail with one message. Main type: ProcessRun. Depends on runtime/comm.
#pragma once

#include <functional>

#include "cli/command.h"
#include "cli/train_flags.h"

namespace zeroplan::cli {

/// Runs `body` as the only process, or as one of several.
/// \param sameness  what must be equal on all of them, by the name under which a user knows it
/// \param body  is given the group, or null; its answer counts on rank 0
/// \throws RunFailed or SaidElsewhere for errors of a run of several processes, else what `body` throws
Answer run_as_processes(const std::optional<runtime::ProcessSettings>& settings, const Json& sameness,
                        const std::function<Answer(runtime::ProcessGroup*)>& body);

}  // namespace zeroplan::cli
