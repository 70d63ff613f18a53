#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/embedding.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void gather_as(const EmbeddingForward& args, IndexRange tokens) {
  const T* token_table = static_cast<const T*>(args.token_table);
  const T* position_table = static_cast<const T*>(args.position_table);
  for (std::size_t t = tokens.begin; t < tokens.end; ++t) {
    const T* token = token_table + static_cast<std::size_t>(args.ids[t]) * args.width;
    const T* position = position_table == nullptr ? nullptr : position_table + t % args.sequence_length * args.width;
    T* out = static_cast<T*>(args.out) + t * args.width;
    for_vectors(0, args.width, [&](std::size_t c, auto size) HWY_ATTR {
      VF value = load(token + c, size);
      if (position != nullptr) value = hn::Add(value, load(position + c, size));
      store(value, out + c, size);
    });
  }
}

/// Adds rows of d_out to 16-bit rows of the tables: summed in fp32, rounded once.
template <class T>
void scatter_sums(const EmbeddingBackward& args, IndexRange columns) {
  const T* d_out = static_cast<const T*>(args.d_out);
  const auto finish = [&](T* row, bool accumulate, std::size_t terms, const auto& token_of) HWY_ATTR {
    for_vectors(columns.begin, columns.end, [&](std::size_t c, auto size) HWY_ATTR {
      VF sum = hn::Zero(F32());
      for (std::size_t i = 0; i < terms; ++i) sum = hn::Add(sum, load(d_out + token_of(i) * args.width + c, size));
      store(accumulate ? hn::Add(load(row + c, size), sum) : sum, row + c, size);
    });
  };
  const auto no_token = [](std::size_t) { return std::size_t{0}; };
  const std::int32_t* order = static_cast<const std::int32_t*>(args.workspace);
  T* table = static_cast<T*>(args.d_token_table);
  for (std::size_t r = 0; !args.accumulate && r < args.vocabulary; ++r) {
    finish(table + r * args.width, false, 0, no_token);
  }
  for (std::size_t first = 0, last = 0; first < args.tokens; first = last) {
    const std::int32_t id = args.ids[order[first]];
    while (last < args.tokens && args.ids[order[last]] == id) ++last;
    finish(table + static_cast<std::size_t>(id) * args.width, args.accumulate, last - first,
           [&](std::size_t i) { return static_cast<std::size_t>(order[first + i]); });
  }
  T* positions = static_cast<T*>(args.d_position_table);
  for (std::size_t p = 0; positions != nullptr && p < args.positions; ++p) {
    const std::size_t terms =
        p < args.sequence_length ? divide_up(args.tokens - std::min(args.tokens, p), args.sequence_length) : 0;
    if (terms == 0 && args.accumulate_position) continue;
    finish(positions + p * args.width, args.accumulate_position, terms,
           [&](std::size_t i) { return i * args.sequence_length + p; });
  }
}

/// Columns of both tables, so that no two workers add to the same element and tokens are added in order.
template <class T>
void scatter_as(const EmbeddingBackward& args, IndexRange columns) {
  const T* d_out = static_cast<const T*>(args.d_out);
  const auto clear = [&](float* table, std::size_t rows) HWY_ATTR {
    for (std::size_t r = 0; r < rows; ++r) {
      float* row = table + r * args.width;
      for_vectors(columns.begin, columns.end,
                  [&](std::size_t c, auto size) HWY_ATTR { store(hn::Zero(F32()), row + c, size); });
    }
  };
  const auto add_row = [&](float* row, std::size_t t) HWY_ATTR {
    for_vectors(columns.begin, columns.end, [&](std::size_t c, auto size) HWY_ATTR {
      store(hn::Add(load(row + c, size), load(d_out + t * args.width + c, size)), row + c, size);
    });
  };
  float* tokens = static_cast<float*>(args.d_token_table);
  if (!args.accumulate) clear(tokens, args.vocabulary);
  for (std::size_t t = 0; t < args.tokens; ++t) add_row(tokens + static_cast<std::size_t>(args.ids[t]) * args.width, t);
  float* positions = static_cast<float*>(args.d_position_table);
  if (positions == nullptr) return;
  if (!args.accumulate_position) clear(positions, args.positions);
  for (std::size_t t = 0; t < args.tokens; ++t) add_row(positions + t % args.sequence_length * args.width, t);
}

void gather(const EmbeddingForward& args, IndexRange tokens) {
  with_storage(args.dtype, [&]<class T>(T) { gather_as<T>(args, tokens); });
}
void scatter(const EmbeddingBackward& args, IndexRange columns) {
  with_result(args.dtype, args.gradient_dtype, [&]<class T, class Gradient>(T, Gradient) {
    if constexpr (std::is_same_v<Gradient, float>) {
      scatter_as<T>(args, columns);
    } else {
      scatter_sums<T>(args, columns);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(gather);
HWY_EXPORT(scatter);

/// The tokens' indices by id, and in order where ids are the same.
void order_tokens(const EmbeddingBackward& args) {
  auto* order = static_cast<std::int32_t*>(args.workspace);
  std::iota(order, order + args.tokens, 0);
  std::sort(order, order + args.tokens, [&](std::int32_t a, std::int32_t b) {
    return args.ids[a] != args.ids[b] ? args.ids[a] < args.ids[b] : a < b;
  });
}

}  // namespace

void embedding_forward(const EmbeddingForward& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.tokens, 4, [&](IndexRange tokens) { HWY_DYNAMIC_DISPATCH(gather)(args, tokens); });
}

void embedding_backward(const EmbeddingBackward& args, Workers& workers) {
  require_result(args.gradient_dtype, args.dtype);
  if (args.gradient_dtype != DType::kFp32) order_tokens(args);
  workers.run_ranges(args.width, kLineElements, [&](IndexRange columns) {
    HWY_DYNAMIC_DISPATCH(scatter)(args, columns);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
