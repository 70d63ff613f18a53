// Gated SiLU. Moves 3 (5 backward) elements for each.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/gated_silu.h"

namespace zeroplan::kernels::cuda {
namespace {

template <class T>
struct ForwardBody {
  const T* gate;
  const T* up;
  T* y;
  template <int N>
  __device__ void at(std::size_t i) const {
    Floats<N> g = load<N>(gate + i);
    const Floats<N> u = load<N>(up + i);
#pragma unroll
    for (int e = 0; e < N; ++e) g.v[e] = g.v[e] * logistic<T>(g.v[e]) * u.v[e];
    store<N>(y + i, g);
  }
};

template <class T>
struct BackwardBody {
  const T* d_y;
  const T* gate;
  const T* up;
  T* d_gate;
  T* d_up;
  template <int N>
  __device__ void at(std::size_t i) const {
    const Floats<N> d = load<N>(d_y + i);
    Floats<N> g = load<N>(gate + i);
    Floats<N> u = load<N>(up + i);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float s = logistic<T>(g.v[e]);
      const float for_gate = d.v[e] * u.v[e] * s * fmaf(g.v[e], 1.0f - s, 1.0f);
      u.v[e] = d.v[e] * g.v[e] * s;
      g.v[e] = for_gate;
    }
    store<N>(d_gate + i, g);
    store<N>(d_up + i, u);
  }
};

}  // namespace

void enqueue(const GatedSiluForward& args, const Launch& launch) {
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const ForwardBody<T> body{static_cast<const T*>(args.gate), static_cast<const T*>(args.up),
                              static_cast<T*>(args.y)};
    for_each_element(args.count, body, aligned({args.gate, args.up, args.y}), launch, "gated silu forward");
  });
}

void enqueue(const GatedSiluBackward& args, const Launch& launch) {
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const BackwardBody<T> body{static_cast<const T*>(args.d_y), static_cast<const T*>(args.gate),
                               static_cast<const T*>(args.up), static_cast<T*>(args.d_gate),
                               static_cast<T*>(args.d_up)};
    for_each_element(args.count, body, aligned({args.d_y, args.gate, args.up, args.d_gate, args.d_up}), launch,
                     "gated silu backward");
  });
}

}  // namespace zeroplan::kernels::cuda
