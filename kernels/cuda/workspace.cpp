#include <algorithm>

#include "kernels/cuda/operators.h"
#include "models/core/cuda_workspace.h"

namespace zeroplan::kernels::cuda {

std::size_t workspace_bytes(const EmbeddingBackward& args) {
  return cuda_embedding_backward_workspace_bytes(args.tokens).count();
}
std::size_t workspace_bytes(const LayerNormBackward& args) {
  return cuda_column_sum_workspace_bytes(args.rows, args.width, 2).count();
}
std::size_t workspace_bytes(const RmsNormBackward& args) {
  return cuda_column_sum_workspace_bytes(args.rows, args.width, 1).count();
}
std::size_t workspace_bytes(const Gemm&) {
  return kCudaGemmWorkspace.count();
}
std::size_t workspace_bytes(const LinearForward&) {
  return kCudaGemmWorkspace.count();
}
std::size_t workspace_bytes(const LinearBackwardInput&) {
  return kCudaGemmWorkspace.count();
}
std::size_t workspace_bytes(const LinearBackwardWeight& args) {
  const Bytes bias = args.d_bias == nullptr ? Bytes(0) : cuda_column_sum_workspace_bytes(args.tokens, args.out, 1);
  return std::max(kCudaGemmWorkspace, bias).count();
}
std::size_t workspace_bytes(const AttentionForward& args) {
  const AttentionShape& shape = args.shape;
  return cuda_attention_forward_workspace_bytes(shape.sequences * shape.sequence_length, shape.heads, shape.dtype)
      .count();
}
std::size_t workspace_bytes(const AttentionBackward& args) {
  const AttentionShape& shape = args.shape;
  return cuda_attention_backward_workspace_bytes(shape.sequences * shape.sequence_length, shape.heads, shape.head_size,
                                                 shape.dtype)
      .count();
}
std::size_t workspace_bytes(const SumOfSquares&) {
  return cuda_sum_of_squares_workspace_bytes().count();
}
std::size_t workspace_bytes(const LambNorms&) {
  return 2 * cuda_sum_of_squares_workspace_bytes().count();
}

}  // namespace zeroplan::kernels::cuda
