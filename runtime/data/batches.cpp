#include "runtime/data/batches.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "runtime/counter_random.h"

namespace zeroplan::runtime {

Batches::Batches(const TokenSource& source, const BatchShape& shape, std::uint64_t seed, const std::string& name)
    : source_(source), shape_(shape) {
  const std::uint64_t tokens = source.tokens();
  sequences_ = tokens == 0 ? 0 : (tokens - 1) / shape.seq;
  if (sequences_ == 0) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} tokens, expected at least {}: a sequence and one more",
                                                      name, tokens, shape.seq + 1))
        .at({.file = name})
        .hint("give more data, or plan with a shorter --seq");
  }
  start_ = random_bits(seed, hash_text("data start"), 0) % sequences_;
}

void Batches::read(std::uint64_t update, std::uint64_t pass, std::uint64_t rank, std::int32_t* tokens,
                   std::int32_t* labels) const {
  const std::uint64_t first = ((update * shape_.accumulation + pass) * shape_.ranks + rank) * shape_.micro_batch;
  for (std::uint64_t row = 0; row < shape_.micro_batch; ++row) {
    const std::uint64_t begin = first_token(first + row);
    source_.read(begin, {tokens + row * shape_.seq, shape_.seq});
    source_.read_labels(begin + 1, {labels + row * shape_.seq, shape_.seq});
  }
}

std::int64_t Batches::valid_labels(std::uint64_t update) const {
  const std::uint64_t sequences = shape_.accumulation * shape_.ranks * shape_.micro_batch;
  if (source_.counts_all()) return static_cast<std::int64_t>(sequences * shape_.seq);
  std::int64_t valid = 0;
  std::array<std::int32_t, 4096> block;
  for (std::uint64_t s = 0; s < sequences; ++s) {
    const std::uint64_t begin = first_token(update * sequences + s) + 1;
    for (std::uint64_t done = 0; done < shape_.seq; done += block.size()) {
      const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), shape_.seq - done));
      source_.read_labels(begin + done, part);
      valid += std::count_if(part.begin(), part.end(), [](std::int32_t label) { return label >= 0; });
    }
  }
  return valid;
}

}  // namespace zeroplan::runtime
