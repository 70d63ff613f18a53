#include "models/core/units.h"

namespace zeroplan::detail {

void count_overflow() {
  throw Error(ErrorCode::kOverflow, "a size exceeds 64 bits")
      .hint("check the model's sizes, the batch and the sequence length");
}

}  // namespace zeroplan::detail
