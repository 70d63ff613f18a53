// The optimizer over states that are all stored in 16 bits. Purpose: precision bf16 keeps neither master weights nor
// fp32 moments; blocks of them go through fp32 on the stack, so that every kernel of an optimizer that works element by
// element serves them unchanged. Depends on kernels and state_pieces.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/ranges.h"
#include "runtime/state_pieces.h"

namespace zeroplan::runtime {

/// Whether the parameters of a piece are what the optimizer updates, and 16 bits wide.
inline bool is_narrow(const StatePiece& piece) {
  return piece.master == nullptr && piece.parameter_dtype != DType::kFp32;
}

/// `Arguments`: of an elementwise optimizer's kernel, with everything set but parameter and moments. The states of
/// `piece` are widened, updated in fp32 and rounded once to nearest even; with found_inf they keep their bits.
/// \param serial  of one worker; shared by the threads of `workers`
template <class Arguments>
void update_narrow(const Arguments& arguments, const StatePiece& piece,
                   void (*kernel)(const Arguments&, kernels::Workers&), kernels::Workers& serial,
                   kernels::Workers& workers) {
  constexpr std::size_t kBlock = 1024;
  const DType type = piece.parameter_dtype;
  workers.run_ranges(piece.count, kBlock, [&](kernels::IndexRange range) {
    std::array<std::array<float, kBlock>, 3> wide;
    for (std::size_t begin = range.begin; begin < range.end; begin += kBlock) {
      const std::size_t count = std::min(kBlock, range.end - begin);
      const auto stored = [&](std::size_t state) {
        std::byte* first = state == 0 ? piece.parameters : piece.moments[state - 1];
        return first + begin * size_of(type);
      };
      const std::size_t states = 1 + piece.moments.size();
      for (std::size_t s = 0; s < states; ++s) {
        kernels::cpu::copy({.dtype = type, .count = count, .x = stored(s), .out = wide[s].data()}, serial);
      }
      Arguments block = arguments;
      block.count = count;
      block.gradient = static_cast<const std::byte*>(arguments.gradient) + begin * size_of(arguments.gradient_dtype);
      block.parameter = wide[0].data();
      block.first_moment = wide[1].data();
      if constexpr (requires { block.second_moment; }) block.second_moment = wide[2].data();
      kernel(block, serial);
      for (std::size_t s = 0; s < states; ++s) {
        kernels::cpu::copy({.out_dtype = type, .count = count, .x = wide[s].data(), .out = stored(s)}, serial);
      }
    }
  });
}

}  // namespace zeroplan::runtime
