// RMS norm: see norm_kernels.cuh. Moves 2 elements for each forward, 3 (4 with accumulate) backward.
#include "kernels/cuda/norm_kernels.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/rms_norm.h"

namespace zeroplan::kernels::cuda {

void enqueue(const RmsNormForward& args, const Launch& launch) {
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const NormForward<T> norm{args.rows,
                              args.width,
                              static_cast<float>(args.epsilon),
                              static_cast<const T*>(args.x),
                              static_cast<const T*>(args.weight),
                              nullptr,
                              static_cast<T*>(args.y),
                              nullptr,
                              args.rstd};
    enqueue_norm_forward<T, false>(norm, launch, "rms norm forward");
  });
}

void enqueue(const RmsNormBackward& args, const Launch& launch) {
  ZP_CHECK(launch.workspace_bytes >= workspace_bytes(args));
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const NormBackward<T> norm{args.rows,
                               args.width,
                               static_cast<const T*>(args.d_y),
                               static_cast<const T*>(args.x),
                               static_cast<const T*>(args.weight),
                               nullptr,
                               args.rstd,
                               static_cast<T*>(args.d_x),
                               args.accumulate};
    enqueue_norm_backward<T, false>(norm, {args.gradient_dtype, args.d_weight, nullptr, args.accumulate_gradient},
                                    launch, "rms norm backward");
  });
}

}  // namespace zeroplan::kernels::cuda
