#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/embedding.h"

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

/// Columns of both tables, so that no two workers add to the same element and tokens are added in order.
template <class T, class Gradient>
void scatter_as(const EmbeddingBackward& args, IndexRange columns) {
  const T* d_out = static_cast<const T*>(args.d_out);
  const auto clear = [&](Gradient* table, std::size_t rows) HWY_ATTR {
    for (std::size_t r = 0; r < rows; ++r) {
      Gradient* row = table + r * args.width;
      for_vectors(columns.begin, columns.end,
                  [&](std::size_t c, auto size) HWY_ATTR { store(hn::Zero(F32()), row + c, size); });
    }
  };
  const auto add_row = [&](Gradient* row, std::size_t t) HWY_ATTR {
    for_vectors(columns.begin, columns.end, [&](std::size_t c, auto size) HWY_ATTR {
      store(hn::Add(load(row + c, size), load(d_out + t * args.width + c, size)), row + c, size);
    });
  };
  Gradient* tokens = static_cast<Gradient*>(args.d_token_table);
  if (!args.accumulate) clear(tokens, args.vocabulary);
  for (std::size_t t = 0; t < args.tokens; ++t) add_row(tokens + static_cast<std::size_t>(args.ids[t]) * args.width, t);
  Gradient* positions = static_cast<Gradient*>(args.d_position_table);
  if (positions == nullptr) return;
  if (!args.accumulate_position) clear(positions, args.positions);
  for (std::size_t t = 0; t < args.tokens; ++t) add_row(positions + t % args.sequence_length * args.width, t);
}

void gather(const EmbeddingForward& args, IndexRange tokens) {
  args.dtype == DType::kBf16 ? gather_as<Bf16>(args, tokens) : gather_as<float>(args, tokens);
}
void scatter(const EmbeddingBackward& args, IndexRange columns) {
  args.dtype == DType::kBf16 ? scatter_as<Bf16, float>(args, columns) : scatter_as<float, float>(args, columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(gather);
HWY_EXPORT(scatter);

}  // namespace

void embedding_forward(const EmbeddingForward& args, Workers& workers) {
  require_storage(args.dtype);
  workers.run_ranges(args.tokens, 4, [&](IndexRange tokens) { HWY_DYNAMIC_DISPATCH(gather)(args, tokens); });
}

void embedding_backward(const EmbeddingBackward& args, Workers& workers) {
  require_storage(args.dtype);
  require_fp32(args.gradient_dtype);
  workers.run_ranges(args.width, kLineElements, [&](IndexRange columns) {
    HWY_DYNAMIC_DISPATCH(scatter)(args, columns);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
