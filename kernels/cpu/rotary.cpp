#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rotary.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/rotary.h"

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void rotate_as(const Rotary& args, IndexRange tokens) {
  const std::size_t half = args.head_size / 2;
  const std::size_t stride = stride_or(args.x_stride, args.heads * args.head_size);
  const VF sign = hn::Set(F32(), args.inverse ? -1.0f : 1.0f);
  for (std::size_t t = tokens.begin; t < tokens.end; ++t) {
    const float* cosines = args.table + t % args.sequence_length * args.head_size;
    const float* sines = cosines + half;
    for (std::size_t h = 0; h < args.heads; ++h) {
      T* first = static_cast<T*>(args.x) + t * stride + h * args.head_size;
      T* second = first + half;
      for_vectors(0, half, [&](std::size_t i, auto size) HWY_ATTR {
        const VF cosine = load(cosines + i, size);
        const VF sine = hn::Mul(load(sines + i, size), sign);
        const VF a = load(first + i, size);
        const VF b = load(second + i, size);
        store(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), first + i, size);
        store(hn::MulAdd(a, sine, hn::Mul(b, cosine)), second + i, size);
      });
    }
  }
}

void rotate(const Rotary& args, IndexRange tokens) {
  with_storage(args.dtype, [&]<class T>(T) { rotate_as<T>(args, tokens); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(rotate);

}  // namespace

void rotary(const Rotary& args, Workers& workers) {
  require_storage(args.dtype);
  ZP_CHECK(args.head_size % 2 == 0);
  workers.run_ranges(args.tokens, 4, [&](IndexRange tokens) { HWY_DYNAMIC_DISPATCH(rotate)(args, tokens); });
}

}  // namespace zeroplan::kernels::cpu
#endif
