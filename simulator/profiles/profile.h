// Memory of a training step in PyTorch, DDP, FSDP2 or DeepSpeed: the step is lowered to eager operators, played into
// the caching allocator for three steps, and read off. Main types: ProfileRequest, PeakPrediction. Depends on models
// and planner.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "planner/machine.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"
#include "simulator/caching_allocator.h"
#include "simulator/profiles/memory_log.h"
#include "simulator/states.h"

namespace zeroplan::simulator {

struct ProfileRequest {
  const models::Model& model;
  const TrainedParameters& trained;
  planner::TrainingSpec spec;
  planner::Strategy strategy;
  const planner::Machine* machine = nullptr;  ///< context and workspace sizes; nullptr: an H100
  AllocatorOptions allocator;
};

/// A single tensor of the step.
struct Allocation {
  std::string name;
  DType dtype = DType::kFp32;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  Phase phase = Phase::kForward;
};

/// Device figures of one rank, host and disk of one node.
struct PeakPrediction {
  std::array<std::optional<PhaseBytes>, kPhases> phases;  ///< by Phase
  Phase phase = Phase::kForward;                          ///< which one is highest
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t context_bytes = 0;
  std::uint64_t host_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::vector<Holder> holders;  ///< at the highest peak
  std::vector<Allocation> allocations;
  std::uint64_t process_bytes() const { return reserved_bytes + context_bytes; }
};

/// \throws Error{kUnsupported} where the blocks of the model's family are unknown, Error{kOverflow} for sizes beyond 64
/// bits.
PeakPrediction predict_peak(const ProfileRequest& request);

}  // namespace zeroplan::simulator
