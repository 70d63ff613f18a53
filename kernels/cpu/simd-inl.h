// Vector helpers shared by the CPU kernels, compiled once for each instruction set. Purpose: loads and stores of every
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
HWY_INLINE void store(VF v, float* p, Whole) {
  hn::StoreU(v, F32(), p);
}

HWY_INLINE VF load(const Bf16* p, Whole) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(wide));
}
/// Exact; see to_float(Fp16).
HWY_INLINE VF load(const Fp16* p, Whole) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(d32, 0x7fffu)));
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(d32, 0x8000u)));
  const auto normal = hn::Add(magnitude, hn::Set(d32, 112u << 23));
  const auto with_bit = hn::BitCast(F32(), hn::Add(normal, hn::Set(d32, 1u << 23)));
  const auto subnormal = hn::BitCast(d32, hn::Sub(with_bit, hn::Set(F32(), 0x1p-14f)));
  const auto special = hn::Or(magnitude, hn::Set(d32, 0x7f800000u));
  const auto is_special = hn::Gt(magnitude, hn::Set(d32, (31u << 23) - 1));
  const auto is_subnormal = hn::Lt(magnitude, hn::Set(d32, 1u << 23));
  const auto number = hn::IfThenElse(is_subnormal, subnormal, normal);
  return hn::BitCast(F32(), hn::Or(hn::IfThenElse(is_special, special, number), sign));
}
template <class T>
HWY_INLINE VF load(const T* p, Part part) {
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
/// Rounds to nearest even; see to_fp16.
HWY_INLINE void store(VF v, Fp16* p, Whole) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const hn::RebindToSigned<F32> d32s;
  const auto bits = hn::BitCast(d32, v);
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fffffffu));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 0x8000u));
  const auto quiet = hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 0x1ffu)), hn::Set(d32, 0x7e00u));
  const auto subnormal =
      hn::Sub(hn::BitCast(d32, hn::Add(hn::BitCast(F32(), magnitude), hn::Set(F32(), 0.5f))), hn::Set(d32, 126u << 23));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 1u));
  const auto shifted = hn::Add(hn::Sub(magnitude, hn::Set(d32, 112u << 23)), hn::Add(odd, hn::Set(d32, 0xfffu)));
  const auto number =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 113u << 23)), subnormal, hn::ShiftRight<13>(shifted));
  const auto is_large = hn::Gt(magnitude, hn::Set(d32, (143u << 23) - 1));
  const auto finite_or_infinite = hn::IfThenElse(is_large, hn::Set(d32, 0x7c00u), number);
  const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::Eq(v, v)), finite_or_infinite, quiet);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(d32s, hn::Or(chosen, sign))), d16, reinterpret_cast<std::uint16_t*>(p));
}
template <class T>
HWY_INLINE void store(VF v, T* p, Part part) {
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(v, F32(), lanes);
  for (std::size_t i = 0; i < part.count; ++i) from_float(lanes[i], p[i]);
}

/// Stores elements of `type` at index `i` of `to`.
template <class Size>
HWY_INLINE void store_as(DType type, VF v, void* to, std::size_t i, Size size) {
  if (type == DType::kFp32) {
    store(v, static_cast<float*>(to) + i, size);
  } else if (type == DType::kBf16) {
    store(v, static_cast<Bf16*>(to) + i, size);
  } else {
    store(v, static_cast<Fp16*>(to) + i, size);
  }
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
