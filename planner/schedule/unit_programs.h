// The programs of a plan, one for each distinct unit and use, with packed frames. Main types: UnitPrograms,
// ProgramTable.
#pragma once

#include <vector>

#include "planner/plan.h"

namespace zeroplan::planner {

/// Indices into Plan::programs; kNoIndex where a unit has no such program.
struct UnitPrograms {
  std::uint32_t forward = kNoIndex;          ///< keeps what the backward pass needs
  std::uint32_t forward_only = kNoIndex;     ///< keeps nothing: eval
  std::uint32_t backward = kNoIndex;         ///< sets gradients; of the last unit: forward, loss and backward
  std::uint32_t backward_adding = kNoIndex;  ///< adds to gradients of earlier micro-steps
  bool recomputes = false;                   ///< the forward pass saves nothing
};

/// Builds the programs into `plan.programs` and packs their frames.
/// \returns one entry a unit of the model
std::vector<UnitPrograms> make_unit_programs(Plan& plan);

/// Blocks that are recomputed: all with `recompute` set and no number given.
std::uint64_t recomputed_blocks(const models::Model& model, const Strategy& strategy);

}  // namespace zeroplan::planner
