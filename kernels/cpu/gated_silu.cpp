#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gated_silu.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/gated_silu.h"

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void forward_as(const GatedSiluForward& args, IndexRange range) {
  const T* gate = static_cast<const T*>(args.gate);
  const T* up = static_cast<const T*>(args.up);
  T* to = static_cast<T*>(args.y);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const VF g = load(gate + i, size);
    store(hn::Mul(hn::Mul(g, sigmoid(g)), load(up + i, size)), to + i, size);
  });
}

template <class T>
void backward_as(const GatedSiluBackward& args, IndexRange range) {
  const T* d_y = static_cast<const T*>(args.d_y);
  const T* gate = static_cast<const T*>(args.gate);
  const T* up = static_cast<const T*>(args.up);
  T* d_gate = static_cast<T*>(args.d_gate);
  T* d_up = static_cast<T*>(args.d_up);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const VF one = hn::Set(F32(), 1.0f);
    const VF g = load(gate + i, size);
    const VF u = load(up + i, size);
    const VF dy = load(d_y + i, size);
    const VF s = sigmoid(g);
    const VF slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(one, s), one));
    store(hn::Mul(hn::Mul(dy, u), slope), d_gate + i, size);
    store(hn::Mul(dy, hn::Mul(g, s)), d_up + i, size);
  });
}

void gated_silu_forward_range(const GatedSiluForward& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) { forward_as<T>(args, range); });
}
void gated_silu_backward_range(const GatedSiluBackward& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) { backward_as<T>(args, range); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(gated_silu_forward_range);
HWY_EXPORT(gated_silu_backward_range);

}  // namespace

void gated_silu_forward(const GatedSiluForward& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(gated_silu_forward_range)(args, range);
  });
}

void gated_silu_backward(const GatedSiluBackward& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(gated_silu_backward_range)(args, range);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
