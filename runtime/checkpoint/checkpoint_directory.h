// Looks at the place for checkpoints before training begins, so that hours of work do not end at a folder that cannot
// be written. Main functions: prepare_checkpoint_directory, checkpoint_bytes. Depends on planner/plan.
#pragma once

#include <filesystem>

#include "planner/plan.h"

namespace zeroplan::runtime {

/// What one checkpoint of all ranks takes: weights and moments of every shard in fp32.
Bytes checkpoint_bytes(const planner::Plan& plan);

/// Creates the directory, proves that files can be made in it, and removes what killed runs left half-written.
/// \param resume  go on from what is there; without it the directory must not name a last checkpoint, which a run from
///   the start would replace
/// \param needed  bytes of one checkpoint; the disk must have as many free
/// \throws Error{kUsage} for a directory in use by another run's checkpoints, Error{kIo}
void prepare_checkpoint_directory(const std::filesystem::path& directory, bool resume, Bytes needed);

}  // namespace zeroplan::runtime
