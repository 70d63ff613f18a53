// Attention by cuDNN's graphs. Purpose: a plan for each shape, built once. Main type: CudnnAttention.
#pragma once

namespace zeroplan::kernels::cuda {

class CudnnAttention {};

}  // namespace zeroplan::kernels::cuda
