// What a budget allows, and what to change where it does not hold the run. Every answer is a prediction played in full,
// none is extrapolated. Main types: Change, BudgetAnswer. Depends on the profiles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/profiles/profile.h"

namespace zeroplan::simulator {

/// One change to a run, and what it saves.
struct Change {
  std::string flags;            ///< as the user would write it
  std::string why;              ///< what becomes smaller, and what it costs
  std::uint64_t process_bytes;  ///< of a GPU with the change
  std::uint64_t saved_bytes;    ///< against the run as it was asked for
  bool fits = false;
};

/// Largest sizes that fit, all else equal; 0: not even one.
struct BudgetAnswer {
  std::uint64_t largest_micro_batch = 0;
  std::uint64_t largest_seq = 0;  ///< tokens, a multiple of `kSeqStep`, or the model's longest
  std::vector<Change> changes;    ///< the first things to try, best first; empty where the run fits
};

constexpr std::uint64_t kSeqStep = 64;

/// `budget`: bytes that a process may take on one GPU. \throws what predict_peak throws
BudgetAnswer answer_for_budget(const ProfileRequest& request, const PeakPrediction& peak, Bytes budget);

}  // namespace zeroplan::simulator
