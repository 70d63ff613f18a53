// Which tokens each rank sees in each pass. Purpose: the same sequences whatever the order in which ranks ask. Main
// type: Batches.
#pragma once

#include "runtime/data/token_source.h"

namespace zeroplan::runtime {

/// The shape of an update.
struct BatchShape {
  std::uint64_t ranks = 1;
  std::uint64_t accumulation = 1;
  std::uint64_t micro_batch = 1;
  std::uint64_t seq = 1;
};

/// Sequence number ((update x accumulation + pass) x ranks + rank) x micro_batch + row of a data set of whole sequences
/// that begins at a place chosen by the seed and wraps around. Labels are the data's shifted by one: position t is to
/// predict t + 1.
class Batches {
 public:
  /// `source` must outlive this. \throws Error{kInvalidInput} if it is shorter than one sequence and one token
  Batches(const TokenSource& source, const BatchShape& shape, std::uint64_t seed, const std::string& name);

  std::uint64_t sequences() const { return sequences_; }
  /// One micro-batch, [micro_batch x seq] each. Allocates nothing.
  void read(std::uint64_t update, std::uint64_t pass, std::uint64_t rank, std::int32_t* tokens,
            std::int32_t* labels) const;
  /// Labels that count in one update over all ranks and passes. Allocates nothing.
  std::int64_t valid_labels(std::uint64_t update) const;

 private:
  std::uint64_t first_token(std::uint64_t sequence) const {
    return (start_ + sequence % sequences_) % sequences_ * shape_.seq;
  }

  const TokenSource& source_;
  BatchShape shape_;
  std::uint64_t sequences_ = 0;
  std::uint64_t start_ = 0;
};

}  // namespace zeroplan::runtime
