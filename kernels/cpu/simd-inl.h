// Vector helpers shared by the CPU kernels, compiled once for each instruction set. Purpose: loads and stores of either
// storage type with or without a tail, exp, and loops whose tails run the same operations as whole vectors. To be
// included after hwy/highway.h only.
#if defined(ZEROPLAN_KERNELS_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROPLAN_KERNELS_CPU_SIMD_INL_H
#undef ZEROPLAN_KERNELS_CPU_SIMD_INL_H
#else
#define ZEROPLAN_KERNELS_CPU_SIMD_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/storage.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using F64 = hn::ScalableTag<double>;
using VF = hn::Vec<F32>;
using VD = hn::Vec<F64>;
constexpr std::size_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);

/// A whole vector, or its first `count` lanes; loads of the rest give zero.
struct Whole {};
struct Part {
  std::size_t count;
};

HWY_INLINE VF load(const float* p, Whole) {
  return hn::LoadU(F32(), p);
}
HWY_INLINE VF load(const float* p, Part part) {
  HWY_ALIGN float lanes[kMaxLanes] = {};
  for (std::size_t i = 0; i < part.count; ++i) lanes[i] = p[i];
  return hn::Load(F32(), lanes);
}
HWY_INLINE void store(VF v, float* p, Whole) {
  hn::StoreU(v, F32(), p);
}
HWY_INLINE void store(VF v, float* p, Part part) {
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(v, F32(), lanes);
  for (std::size_t i = 0; i < part.count; ++i) p[i] = lanes[i];
}

HWY_INLINE VF load(const Bf16* p, Whole) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(wide));
}
HWY_INLINE VF load(const Bf16* p, Part part) {
  HWY_ALIGN float lanes[kMaxLanes] = {};
  for (std::size_t i = 0; i < part.count; ++i) lanes[i] = to_float(p[i]);
  return hn::Load(F32(), lanes);
}
/// Rounds to nearest even; a NaN stays one.
HWY_INLINE void store(VF v, Bf16* p, Whole) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const hn::RebindToSigned<F32> d32s;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  const auto is_number = hn::RebindMask(d32, hn::Eq(v, v));
  const auto chosen = hn::IfThenElse(is_number, rounded, quiet);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(d32s, chosen)), d16, reinterpret_cast<std::uint16_t*>(p));
}
HWY_INLINE void store(VF v, Bf16* p, Part part) {
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(v, F32(), lanes);
  for (std::size_t i = 0; i < part.count; ++i) p[i] = to_bf16(lanes[i]);
}

/// Keeps the first lanes of `v` and sets the others to `other`.
HWY_INLINE VF keep(VF v, VF, Whole) {
  return v;
}
HWY_INLINE VF keep(VF v, VF other, Part part) {
  return hn::IfThenElse(hn::FirstN(F32(), part.count), v, other);
}

/// Calls body(i, Whole) for the whole vectors of [begin, end), then body(i, Part) for what is left.
template <class Body>
HWY_INLINE void for_vectors(std::size_t begin, std::size_t end, const Body& body) {
  const std::size_t lanes = hn::Lanes(F32());
  std::size_t i = begin;
  for (; i + lanes <= end; i += lanes) body(i, Whole());
  if (i < end) body(i, Part{end - i});
}

/// e^x within 2 units in the last place for x in [-87.3, 88]; x beyond is taken as the nearer end, NaN stays NaN.
/// Reduction to
/// [-ln2/2, ln2/2] in two steps, then the polynomial of Cephes' expf.
HWY_INLINE VF exponential(VF x) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const VF lowest = hn::Set(d, -87.3f);
  const VF highest = hn::Set(d, 88.0f);
  x = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
  x = hn::IfThenElse(hn::Gt(x, highest), highest, x);
  const auto power = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  const VF n = hn::ConvertTo(d, power);
  VF r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  VF p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto scale = hn::ShiftLeft<23>(hn::Add(power, hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, scale));
}

/// 1 / (1 + e^-x).
HWY_INLINE VF sigmoid(VF x) {
  const VF one = hn::Set(F32(), 1.0f);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}

HWY_INLINE float sum_of_lanes(VF v) {
  return hn::GetLane(hn::SumOfLanes(F32(), v));
}
HWY_INLINE float max_of_lanes(VF v) {
  return hn::GetLane(hn::MaxOfLanes(F32(), v));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
