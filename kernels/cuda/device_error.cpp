#include "kernels/cuda/device_error.h"

#include <string>

#include "models/core/error.h"

namespace zeroplan::kernels::cuda {

void check_device(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Error(ErrorCode::kDevice, std::string(what) + ": " + cudaGetErrorString(status));
}

void check_launch(const char* kernel) {
  check_device(cudaGetLastError(), kernel);
}

}  // namespace zeroplan::kernels::cuda
