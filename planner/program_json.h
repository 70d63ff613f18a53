// The part of a program that a plan file states: its frame.
#pragma once

#include "models/core/json.h"
#include "models/program.h"

namespace zeroplan::planner {

Json program_to_json(const models::Program& program);

/// Takes the frame's packing from a file. \throws Error{kInvalidInput} unless name, temporaries, sizes and lives are
/// the program's.
void read_program_frame(const JsonView& view, models::Program& program);

}  // namespace zeroplan::planner
