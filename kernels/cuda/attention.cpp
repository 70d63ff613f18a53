// Which of the ways to compute attention runs a shape. See attention_paths.h.
#include "kernels/attention.h"

#include <string>

#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/operators.h"
#include "models/core/error.h"

namespace zeroplan::kernels::cuda {
namespace {

std::size_t stride_or(std::size_t stride, std::size_t dense) {
  return stride == 0 ? dense : stride;
}

void check_shape(const AttentionShape& shape) {
  ZP_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  if (shape.head_size == 0 || shape.head_size > kMaxHeadSize) {
    throw Error(ErrorCode::kUnsupported, "attention with heads of " + std::to_string(shape.head_size) + " elements")
        .hint("the CUDA kernels take 1 to " + std::to_string(kMaxHeadSize));
  }
  if (shape.dtype != DType::kFp32 && shape.dtype != DType::kBf16 && shape.dtype != DType::kFp16) {
    throw Error(ErrorCode::kUnsupported,
                "no CUDA attention for elements of type " + std::string(to_string(shape.dtype)));
  }
}

AttentionForward with_strides(AttentionForward args) {
  const std::size_t wide = args.shape.heads * args.shape.head_size;
  const std::size_t narrow = args.shape.kv_heads * args.shape.head_size;
  args.q_stride = stride_or(args.q_stride, wide);
  args.k_stride = stride_or(args.k_stride, narrow);
  args.v_stride = stride_or(args.v_stride, narrow);
  args.out_stride = stride_or(args.out_stride, wide);
  return args;
}

AttentionBackward with_strides(AttentionBackward args) {
  const std::size_t wide = args.shape.heads * args.shape.head_size;
  const std::size_t narrow = args.shape.kv_heads * args.shape.head_size;
  args.d_out_stride = stride_or(args.d_out_stride, wide);
  args.q_stride = stride_or(args.q_stride, wide);
  args.k_stride = stride_or(args.k_stride, narrow);
  args.v_stride = stride_or(args.v_stride, narrow);
  args.out_stride = stride_or(args.out_stride, wide);
  args.d_q_stride = stride_or(args.d_q_stride, wide);
  args.d_k_stride = stride_or(args.d_k_stride, narrow);
  args.d_v_stride = stride_or(args.d_v_stride, narrow);
  return args;
}

bool is_empty(const AttentionShape& shape) {
  return shape.sequences * shape.sequence_length * shape.heads == 0;
}

/// Whether cuDNN takes the call; its plan is built if it is new.
bool by_cudnn(const AttentionForward& strided, Context& context, std::size_t bytes) {
  return context.cudnn() != nullptr && context.cudnn()->prepare(strided, bytes);
}
bool by_cudnn(const AttentionBackward& strided, Context& context, std::size_t bytes) {
  return context.cudnn() != nullptr && context.cudnn()->prepare(strided, bytes);
}

/// A plan of cuDNN's belongs to a size of workspace: the one that is planned, whatever the launch offers.
Launch with_planned_workspace(Launch launch, std::size_t bytes) {
  ZP_CHECK(launch.workspace_bytes >= bytes);
  launch.workspace_bytes = bytes;
  return launch;
}

}  // namespace

void prepare(const AttentionForward& args, Context& context) {
  check_shape(args.shape);
  if (!is_empty(args.shape)) by_cudnn(with_strides(args), context, workspace_bytes(args));
}
void prepare(const AttentionBackward& args, Context& context) {
  check_shape(args.shape);
  if (!is_empty(args.shape)) by_cudnn(with_strides(args), context, workspace_bytes(args));
}

std::string implementation(const AttentionForward& args, Context& context) {
  return by_cudnn(with_strides(args), context, workspace_bytes(args)) ? "cudnn" : "tiled";
}
std::string implementation(const AttentionBackward& args, Context& context) {
  return by_cudnn(with_strides(args), context, workspace_bytes(args)) ? "cudnn" : "tiled";
}

void enqueue(const AttentionForward& args, const Launch& launch) {
  check_shape(args.shape);
  if (is_empty(args.shape)) return;
  const Launch planned = with_planned_workspace(launch, workspace_bytes(args));
  const AttentionForward strided = with_strides(args);
  if (by_cudnn(strided, *launch.context, planned.workspace_bytes)) {
    return launch.context->cudnn()->enqueue(strided, planned);
  }
  enqueue_tiled(strided, launch);
}

void enqueue(const AttentionBackward& args, const Launch& launch) {
  check_shape(args.shape);
  if (is_empty(args.shape)) return;
  const Launch planned = with_planned_workspace(launch, workspace_bytes(args));
  const AttentionBackward strided = with_strides(args);
  if (by_cudnn(strided, *launch.context, planned.workspace_bytes)) {
    return launch.context->cudnn()->enqueue(strided, planned);
  }
  auto* delta = static_cast<float*>(launch.workspace);
  enqueue_delta(strided, delta, launch);
  enqueue_tiled(strided, delta, launch);
}

}  // namespace zeroplan::kernels::cuda
