// The memory of a run. Purpose: one allocation per tier, of the plan's size, made and touched before the first task;
// every pointer comes from it. Main types: Arena, Arenas. Depends on planner/plan.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "kernels/device.h"
#include "planner/plan.h"

namespace zeroplan::runtime {

/// A range of zero or more bytes from the system, aligned to a page, filled with a pattern that no computation leaves
/// behind, so that what was written can be told from what was not.
class Arena {
 public:
  /// \throws Error{kIo} if the system refuses
  explicit Arena(Bytes size);
  /// Memory of a device, or with `is_on_host` pinned memory that it reaches. `device` must outlive it, and be current
  /// on the calling thread. \throws Error{kDoesNotFit}
  Arena(Bytes size, kernels::Device& device, bool is_on_host);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  /// Bytes that no longer hold the pattern: those written at least once. Scans all of it.
  Bytes written() const;

 private:
  bool is_on_device() const { return device_ != nullptr && !is_on_host_; }

  kernels::Device* device_ = nullptr;  ///< null: memory of the system
  bool is_on_host_ = true;
  std::byte* data_ = nullptr;
  Bytes size_;
};

/// Fills with the pattern of untouched memory: each 32-bit word reads as a NaN. `size` is a multiple of 4.
void fill_with_pattern(std::byte* data, std::size_t size);

/// The arenas of one rank's plan.
class Arenas {
 public:
  /// \param device  where the device tier lies, with a pinned host tier; null: all tiers are memory of the system
  explicit Arenas(const planner::Plan& plan, kernels::Device* device = nullptr);

  std::byte* address(planner::BufferId buffer) const;
  std::byte* address(const planner::Access& access) const { return address(access.buffer) + access.offset.count(); }
  Bytes size(planner::BufferId buffer) const { return plan_.buffers[buffer].bytes; }
  const Arena& tier(planner::Tier tier) const { return *arenas_[static_cast<std::size_t>(tier)]; }

 private:
  const planner::Plan& plan_;
  std::array<std::unique_ptr<Arena>, planner::kTierCount> arenas_;
};

}  // namespace zeroplan::runtime
