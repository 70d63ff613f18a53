#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ranges.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/ranges.h"

#include <cstring>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void add_as(const Add& args, IndexRange range) {
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  T* out = static_cast<T*>(args.out);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    store(hn::Add(load(a + i, size), load(b + i, size)), out + i, size);
  });
}

template <class T>
void scale_as(const Scale& args, IndexRange range) {
  T* x = static_cast<T*>(args.x);
  const VF factor = hn::Set(F32(), args.factor);
  for_vectors(range.begin, range.end,
              [&](std::size_t i, auto size) HWY_ATTR { store(hn::Mul(load(x + i, size), factor), x + i, size); });
}

template <class T>
void fill_as(const Fill& args, IndexRange range) {
  T* x = static_cast<T*>(args.x);
  const VF value = hn::Set(F32(), args.value);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR { store(value, x + i, size); });
}

template <class T, class Out>
void convert_as(const Copy& args, IndexRange range) {
  const T* x = static_cast<const T*>(args.x);
  Out* out = static_cast<Out*>(args.out);
  for_vectors(range.begin, range.end,
              [&](std::size_t i, auto size) HWY_ATTR { store(load(x + i, size), out + i, size); });
}

/// In double, over two vectors of partial sums in turn.
template <class T>
double squares_as(const T* x, IndexRange range) {
  const F64 d64;
  const hn::Rebind<float, F64> d32;
  VD sum[2] = {hn::Zero(d64), hn::Zero(d64)};
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    HWY_ALIGN float lanes[kMaxLanes];
    hn::Store(load(x + i, size), F32(), lanes);
    for (std::size_t part = 0; part * hn::Lanes(d64) < hn::Lanes(F32()); ++part) {
      const VD v = hn::PromoteTo(d64, hn::Load(d32, lanes + part * hn::Lanes(d64)));
      sum[part % 2] = hn::MulAdd(v, v, sum[part % 2]);
    }
  });
  return hn::GetLane(hn::SumOfLanes(d64, hn::Add(sum[0], sum[1])));
}

void add_range(const Add& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) { add_as<T>(args, range); });
}
void scale_range(const Scale& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) { scale_as<T>(args, range); });
}
void fill_range(const Fill& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) { fill_as<T>(args, range); });
}
void convert_range(const Copy& args, IndexRange range) {
  with_storage(args.dtype, [&]<class T>(T) {
    with_storage(args.out_dtype, [&]<class Out>(Out) { convert_as<T, Out>(args, range); });
  });
}
double squares_range(const SumOfSquares& args, IndexRange range) {
  double sum = 0;
  with_storage(args.dtype, [&]<class T>(T) { sum = squares_as(static_cast<const T*>(args.x), range); });
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(add_range);
HWY_EXPORT(scale_range);
HWY_EXPORT(fill_range);
HWY_EXPORT(convert_range);
HWY_EXPORT(squares_range);

}  // namespace

void add(const Add& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(add_range)(args, range);
  });
}

void scale(const Scale& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(scale_range)(args, range);
  });
}

void fill(const Fill& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(fill_range)(args, range);
  });
}

void copy(const Copy& args, Workers& workers) {
  require_storage(args.dtype);
  require_storage(args.out_dtype);
  const std::size_t size = size_of(args.dtype);
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    if (args.dtype == args.out_dtype) {
      std::memcpy(static_cast<char*>(args.out) + range.begin * size,
                  static_cast<const char*>(args.x) + range.begin * size, range.size() * size);
    } else {
      HWY_DYNAMIC_DISPATCH(convert_range)(args, range);
    }
  });
}

double sum_of_squares(const SumOfSquares& args, Workers& workers) {
  require_storage(args.dtype);
  // The leaves depend on the count alone; their sums are added in order.
  constexpr std::size_t kLeaves = 256;
  const std::size_t leaf = (args.count / kLeaves / kElementGranule + 1) * kElementGranule;
  const std::size_t leaves = (args.count + leaf - 1) / leaf;
  double partial[kLeaves];
  workers.run_ranges(leaves, 1, [&](IndexRange range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      partial[i] =
          HWY_DYNAMIC_DISPATCH(squares_range)(args, IndexRange{i * leaf, std::min(args.count, (i + 1) * leaf)});
    }
  });
  double sum = 0;
  for (std::size_t i = 0; i < leaves; ++i) sum += partial[i];
  return sum;
}

}  // namespace zeroplan::kernels::cpu
#endif
