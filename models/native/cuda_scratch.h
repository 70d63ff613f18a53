// The scratch memory of the CUDA kernels in a program. Depends on models/program.
#pragma once

#include "models/model.h"
#include "models/program.h"

namespace zeroplan::models {

/// Gives each op whose CUDA kernel asks for scratch a temporary of that size (models/core/cuda_workspace.h), as its
/// last written operand, named "OP / workspace".
void add_cuda_scratch(Program& program, const DecoderShape& shape);

}  // namespace zeroplan::models
