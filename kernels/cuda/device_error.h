// Failed calls of CUDA libraries as Error{kDevice}. Depends on models/core only.
#pragma once

#include <cuda_runtime_api.h>

namespace zeroplan::kernels::cuda {

/// \throws Error{kDevice} naming `what` and the runtime's words, unless `status` is success.
void check_device(cudaError_t status, const char* what);

/// Whether the launch just made was accepted. \throws Error{kDevice}
void check_launch(const char* kernel);

}  // namespace zeroplan::kernels::cuda
