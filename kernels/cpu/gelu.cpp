#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gelu.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/gelu.h"

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// 2 sqrt(2/pi): x / 2 (1 + tanh(u)) is x sigmoid(2 u).
constexpr float kTwiceRoot = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

HWY_INLINE VF gate_of(VF x) {
  const F32 d;
  const VF cubic = hn::Mul(hn::Mul(x, x), hn::Set(d, kCubic));
  return sigmoid(hn::Mul(hn::Set(d, kTwiceRoot), hn::MulAdd(cubic, x, x)));
}

template <class T>
void forward_as(const GeluForward& args, IndexRange range) {
  const T* from = static_cast<const T*>(args.x);
  T* to = static_cast<T*>(args.y);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const VF x = load(from + i, size);
    store(hn::Mul(x, gate_of(x)), to + i, size);
  });
}

/// With s = sigmoid(w), w = 2 u: dy/dx = s + x s (1 - s) dw/dx.
template <class T>
void backward_as(const GeluBackward& args, IndexRange range) {
  const T* d_y = static_cast<const T*>(args.d_y);
  const T* from = static_cast<const T*>(args.x);
  T* to = static_cast<T*>(args.d_x);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const F32 d;
    const VF x = load(from + i, size);
    const VF s = gate_of(x);
    const VF slope = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 3 * kCubic * kTwiceRoot), hn::Set(d, kTwiceRoot));
    const VF bend = hn::Mul(hn::Mul(x, s), hn::Sub(hn::Set(d, 1.0f), s));
    store(hn::Mul(load(d_y + i, size), hn::MulAdd(bend, slope, s)), to + i, size);
  });
}

void gelu_forward_range(const GeluForward& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) { forward_as<T>(args, range); });
}
void gelu_backward_range(const GeluBackward& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) { backward_as<T>(args, range); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(gelu_forward_range);
HWY_EXPORT(gelu_backward_range);

}  // namespace

void gelu_forward(const GeluForward& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(gelu_forward_range)(args, range);
  });
}

void gelu_backward(const GeluBackward& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(gelu_backward_range)(args, range);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
