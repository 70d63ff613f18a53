// What an eager program allocates, in order, played into the caching allocator at once. Purpose: peaks and ends of each
// phase with the holders of every byte, from one compact log. Main types: SiteId (who allocates), Phase, MemoryLog.
// Depends on the allocator.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/shape.h"
#include "simulator/caching_allocator.h"

namespace zeroplan::simulator {

/// An interned name of what is allocated: "weights", "attention scores", ...
using SiteId = std::uint16_t;

enum class Phase : std::uint8_t { kLoad, kOptimizerInit, kForward, kBackward, kStep, kZeroGrad };
constexpr std::size_t kPhases = 6;
std::string_view to_string(Phase phase);

/// Bytes within one phase. The peak of a phase counts what was there when it began.
struct PhaseBytes {
  std::uint64_t peak = 0;
  std::uint64_t end = 0;
};

struct Holder {
  std::string name;
  std::uint64_t bytes = 0;
};

/// The largest tensor that a site allocated, by type.
struct LargestTensor {
  SiteId site = 0;
  DType dtype = DType::kFp32;
  std::uint64_t elements = 0;
  Phase phase = Phase::kLoad;
};

class MemoryLog {
 public:
  /// Knows the names of sites.h from the start: a `Site` is a SiteId.
  explicit MemoryLog(AllocatorOptions options = {});

  /// Interns a name; the same name gives the same site.
  SiteId site(std::string_view name);
  const std::string& name_of(SiteId site) const { return names_[site]; }

  BlockId allocate(std::uint64_t elements, DType dtype, SiteId site, StreamId stream = 0);
  void release(BlockId block, SiteId site);

  /// Starts a phase. Returning to a phase of the same step keeps the higher peak.
  void begin(Phase phase);
  /// Forgets the phases of the step before (not load and optimizer_init), so that those of the last step remain.
  void begin_step();
  /// Ends the last phase. To be called before the results are read.
  void finish();

  const std::optional<PhaseBytes>& phase(Phase phase) const { return results_[static_cast<std::size_t>(phase)].bytes; }
  /// The phase with the highest peak.
  Phase highest() const;
  /// Who held the bytes at a phase's peak, descending; they add up to the peak.
  std::vector<Holder> holders(Phase phase) const;
  /// Largest tensors by site and type over the steps, descending by bytes.
  std::vector<LargestTensor> largest() const;

  CachingAllocator& allocator() { return allocator_; }
  const CachingAllocator& allocator() const { return allocator_; }
  std::size_t events() const { return events_.size(); }

 private:
  struct Result {
    std::optional<PhaseBytes> bytes;
    std::size_t peak_event = 0;  ///< events up to here (exclusive) give the peak
  };
  void note_peak();
  void close();

  CachingAllocator allocator_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, SiteId> ids_;
  std::vector<std::uint64_t>
      events_;  ///< bytes in the low 47 bits, then 16 bits of site, the top bit set for a release
  std::array<Result, kPhases> results_;
  std::vector<LargestTensor> largest_;  ///< four slots a site, one per class of type
  Phase current_ = Phase::kLoad;
  bool open_ = false;
};

}  // namespace zeroplan::simulator
