// The operators of training. Purpose: one header an operator, each with an argument struct and two bodies of the same
// meaning: `reference` (plain loops, double accumulation, obviously right) and `cpu` (vectorised, threaded).
// Conventions:
// - Pointers come from the plan; no call allocates memory, and nothing is kept after it returns.
// - `const void*` / `void*` operands have the struct's `dtype`; statistics, tables and losses are fp32. Rows are dense
// unless a stride
//   (in elements) says otherwise; a stride of 0 means dense.
// - `accumulate` adds to a result instead of setting it.
// - Results do not depend on the number of workers, bit for bit.
// - A dtype that an operator does not support throws Error{kUnsupported}; contradictory extents throw Error{kInternal}.
// Must not depend on planner, runtime or anything else but models/core.
#pragma once

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/gated_silu.h"
#include "kernels/gelu.h"
#include "kernels/gemm.h"
#include "kernels/lamb.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/optimizers.h"
#include "kernels/ranges.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary.h"
#include "kernels/step_scalars.h"
#include "kernels/workers.h"
