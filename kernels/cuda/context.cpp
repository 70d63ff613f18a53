#include "kernels/cuda/context.h"

#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/matrix_products.h"

namespace zeroplan::kernels::cuda {

Context::Context(const ContextOptions& options)
    : options_(options), products_(std::make_unique<MatrixProducts>(options)), cudnn_note_("not wanted") {
  if (options.use_cudnn) cudnn_ = CudnnAttention::open(cudnn_note_);
}

Context::~Context() = default;

}  // namespace zeroplan::kernels::cuda
