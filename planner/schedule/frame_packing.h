// Packs a program's temporaries into its frame.
#pragma once

#include "models/program.h"

namespace zeroplan::planner {

/// First and last op (inclusive) that touch a temporary.
struct TemporaryLife {
  std::uint32_t tensor = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// Lives of a program's temporaries, in the order of its tensors. A temporary that no op touches is a fault of the
/// builder.
std::vector<TemporaryLife> temporary_lives(const models::Program& program);

/// Sets the offsets of the temporaries, frame_bytes and lower_bound_bytes.
void pack_frame(models::Program& program, std::uint64_t alignment);

}  // namespace zeroplan::planner
