// What a step took: time per lane, bytes moved, peak per tier with holders. Purpose: predicted and measured columns
// align, because simulator and runtime fill the same type (interface.md, section 5). Main type: RunRecord. Depends on
// planner/plan.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"
#include "models/core/units.h"
#include "planner/plan.h"

namespace zeroplan::planner {

enum class RecordSource { kSimulated, kMeasured };

/// One lane during one update (all its micro-steps).
struct LaneRecord {
  Seconds busy;  ///< time in tasks, without the waits between them
  std::uint64_t tasks = 0;
};

/// Bytes of one rank during one update.
struct MovedBytes {
  Bytes gather;  ///< that this rank receives from others: (ranks - 1) / ranks of what it gathers
  Bytes reduce;  ///< that this rank sends to others in reductions (all-reduce: twice)
  Bytes h2d;
  Bytes d2h;
  Bytes disk_read;
  Bytes disk_write;
};

/// A buffer that held bytes at the peak.
struct HolderRecord {
  std::string name;
  Bytes bytes;
};

/// One tier of one rank.
struct TierRecord {
  Bytes planned;              ///< the arena
  std::optional<Bytes> used;  ///< measured: high-water mark of the arena; simulated: end of the highest live buffer
  std::vector<HolderRecord> holders;  ///< live at the moment of most live bytes, descending
};

/// One update of a run: the training steps of one cycle.
struct RunRecord {
  RecordSource source = RecordSource::kSimulated;
  std::uint64_t gpus = 1;
  Seconds step;             ///< one update
  double tokens_per_s = 0;  ///< of all ranks
  Seconds exposed_comm;     ///< the compute lane idles because it waits for a gather or a reduction
  std::array<LaneRecord, kLaneCount> lanes;
  MovedBytes moved;
  std::array<TierRecord, kTierCount> tiers;

  LaneRecord& lane(Lane l) { return lanes[static_cast<std::size_t>(l)]; }
  const LaneRecord& lane(Lane l) const { return lanes[static_cast<std::size_t>(l)]; }
  TierRecord& tier(Tier t) { return tiers[static_cast<std::size_t>(t)]; }
  const TierRecord& tier(Tier t) const { return tiers[static_cast<std::size_t>(t)]; }

  /// The object `record`; lanes without tasks are left out.
  Json to_json() const;
};

/// Bytes that one task moves, added to `moved`; simulator and runtime count alike by calling this.
void count_moved(const Plan& plan, const Task& task, MovedBytes& moved);

}  // namespace zeroplan::planner
