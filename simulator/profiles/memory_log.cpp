#include "simulator/profiles/memory_log.h"

#include <algorithm>

#include "models/core/error.h"
#include "simulator/profiles/sites.h"

namespace zeroplan::simulator {
namespace {

constexpr unsigned kSiteShift = 47;
constexpr std::uint64_t kBytesMask = (std::uint64_t{1} << kSiteShift) - 1;
constexpr std::uint64_t kReleaseBit = std::uint64_t{1} << 63;
constexpr std::size_t kTypesPerSite = 4;

/// A slot for the type: 32-bit floats, 16-bit floats, 64-bit, the rest.
std::size_t slot_of(SiteId site, DType dtype) {
  std::size_t slot = 3;
  if (dtype == DType::kFp32) slot = 0;
  if (dtype == DType::kBf16 || dtype == DType::kFp16) slot = 1;
  if (dtype == DType::kInt64) slot = 2;
  return site * kTypesPerSite + slot;
}

}  // namespace

std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"load",     "optimizer_init", "forward",
                                                            "backward", "step",           "zero_grad"};
  return kNames[static_cast<std::size_t>(phase)];
}

MemoryLog::MemoryLog(AllocatorOptions options) : allocator_(options) {
  for (const std::string_view name : kSiteNames) site(name);
}

SiteId MemoryLog::site(std::string_view name) {
  const auto [it, added] = ids_.try_emplace(std::string(name), static_cast<SiteId>(names_.size()));
  if (added) {
    ZP_CHECK(names_.size() < 0xffff);
    names_.emplace_back(name);
    largest_.resize(names_.size() * kTypesPerSite);
  }
  return it->second;
}

void MemoryLog::note_peak() {
  Result& r = results_[static_cast<std::size_t>(current_)];
  if (allocator_.allocated_bytes() > r.bytes->peak) {
    r.bytes->peak = allocator_.allocated_bytes();
    r.peak_event = events_.size();
  }
}

BlockId MemoryLog::allocate(std::uint64_t elements, DType dtype, SiteId site, StreamId stream) {
  const std::uint64_t bytes = detail::checked_mul(elements, zeroplan::size_of(dtype));
  if (bytes > kBytesMask / 2) detail::count_overflow();
  const BlockId block = allocator_.allocate(bytes, stream);
  if (block == kNoBlock) return block;
  events_.push_back(allocator_.size_of(block) | (std::uint64_t{site} << kSiteShift));
  if (open_) note_peak();
  LargestTensor& seen = largest_[slot_of(site, dtype)];
  if (elements > seen.elements) seen = {site, dtype, elements, current_};
  return block;
}

void MemoryLog::release(BlockId block, SiteId site) {
  if (block == kNoBlock) return;
  events_.push_back(allocator_.size_of(block) | (std::uint64_t{site} << kSiteShift) | kReleaseBit);
  allocator_.release(block);
}

void MemoryLog::close() {
  if (open_) results_[static_cast<std::size_t>(current_)].bytes->end = allocator_.allocated_bytes();
  open_ = false;
}

void MemoryLog::begin(Phase phase) {
  close();
  current_ = phase;
  Result& r = results_[static_cast<std::size_t>(phase)];
  if (!r.bytes) {
    r.bytes = PhaseBytes{};
    r.peak_event = events_.size();
  }
  open_ = true;
  note_peak();
}

void MemoryLog::begin_step() {
  close();
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kStep, Phase::kZeroGrad}) {
    results_[static_cast<std::size_t>(phase)] = {};
  }
}

void MemoryLog::finish() {
  close();
}

Phase MemoryLog::highest() const {
  std::size_t best = 0;
  std::uint64_t peak = 0;
  for (std::size_t i = 0; i < kPhases; ++i) {
    if (results_[i].bytes && results_[i].bytes->peak > peak) {
      peak = results_[i].bytes->peak;
      best = i;
    }
  }
  return static_cast<Phase>(best);
}

std::vector<Holder> MemoryLog::holders(Phase phase) const {
  const Result& r = results_[static_cast<std::size_t>(phase)];
  std::vector<std::uint64_t> held(names_.size(), 0);
  for (std::size_t i = 0; i < r.peak_event; ++i) {
    const std::uint64_t event = events_[i];
    std::uint64_t& bytes = held[(event & ~kReleaseBit) >> kSiteShift];
    bytes = (event & kReleaseBit) != 0 ? bytes - (event & kBytesMask) : bytes + (event & kBytesMask);
  }
  std::vector<Holder> result;
  for (std::size_t site = 0; site < held.size(); ++site) {
    if (held[site] > 0) result.push_back({names_[site], held[site]});
  }
  std::stable_sort(result.begin(), result.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return result;
}

std::vector<LargestTensor> MemoryLog::largest() const {
  std::vector<LargestTensor> result;
  for (const LargestTensor& t : largest_) {
    if (t.elements > 0) result.push_back(t);
  }
  const auto bytes = [](const LargestTensor& t) { return t.elements * zeroplan::size_of(t.dtype); };
  std::stable_sort(result.begin(), result.end(), [&](const auto& a, const auto& b) { return bytes(a) > bytes(b); });
  return result;
}

}  // namespace zeroplan::simulator
