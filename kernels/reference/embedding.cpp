#include "kernels/embedding.h"

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void embedding_forward(const EmbeddingForward& args) {
  for (std::size_t t = 0; t < args.tokens; ++t) {
    for (std::size_t c = 0; c < args.width; ++c) {
      double value = load(args.dtype, args.token_table, static_cast<std::size_t>(args.ids[t]) * args.width + c);
      if (args.position_table != nullptr) {
        value += load(args.dtype, args.position_table, t % args.sequence_length * args.width + c);
      }
      store(args.dtype, args.out, t * args.width + c, value);
    }
  }
}

void embedding_backward(const EmbeddingBackward& args) {
  for (std::size_t row = 0; row < args.vocabulary; ++row) {
    for (std::size_t c = 0; c < args.width; ++c) {
      double sum = 0;
      for (std::size_t t = 0; t < args.tokens; ++t) {
        if (static_cast<std::size_t>(args.ids[t]) == row) sum += load(args.dtype, args.d_out, t * args.width + c);
      }
      put(args.gradient_dtype, args.d_token_table, row * args.width + c, sum, args.accumulate);
    }
  }
  if (args.d_position_table == nullptr) return;
  for (std::size_t row = 0; row < args.positions; ++row) {
    for (std::size_t c = 0; c < args.width; ++c) {
      double sum = 0;
      for (std::size_t t = 0; t < args.tokens; ++t) {
        if (t % args.sequence_length == row) sum += load(args.dtype, args.d_out, t * args.width + c);
      }
      put(args.gradient_dtype, args.d_position_table, row * args.width + c, sum, args.accumulate_position);
    }
  }
}

}  // namespace zeroplan::kernels::reference
