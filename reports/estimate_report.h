// What `estimate` says, as a document and as text for people. Main types: EstimateReport. Depends on simulator and
// planner.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"
#include "models/model.h"
#include "models/parameter_summary.h"
#include "planner/machine.h"
#include "simulator/profiles/advice.h"
#include "simulator/profiles/profile.h"
#include "simulator/states.h"

namespace zeroplan::reports {

/// Model states of one stage and choice of offload.
struct StatesRow {
  planner::Strategy strategy;
  simulator::StateParts parts;
};

/// The predicted peak of one stage.
struct PeakRow {
  planner::Strategy strategy;
  simulator::PeakPrediction peak;
  std::optional<simulator::BudgetAnswer> budget;  ///< where --budget was given
};

/// Host memory while weights are read.
struct LoadReport {
  DType dtype = DType::kBf16;
  Bytes every_rank;  ///< each rank of a node reads all of them
  Bytes one_loader;
};

struct EstimateReport {
  const models::Model* model = nullptr;
  models::ParameterSummary summary;
  Elements trainable;
  std::uint64_t persistence_threshold = 0;
  bool stage3 = false;
  bool with_tensors = false;
  std::vector<bool> trained;  ///< by index into Model::parameters
  planner::TrainingSpec spec;
  const planner::Machine* machine = nullptr;
  std::vector<StatesRow> states;
  std::vector<simulator::DeepspeedRow> deepspeed;
  std::vector<PeakRow> peaks;
  LoadReport load;
  std::vector<std::string> notes;
};

/// A row of `states`.
Json states_json(planner::Framework framework, const StatesRow& row);

Json estimate_document(const EstimateReport& report);
/// Fits 100 columns.
std::string estimate_text(const EstimateReport& report);

/// Our figures beside DeepSpeed's, and what theirs leave out.
std::string beside_deepspeed_text(const EstimateReport& report);

/// Whether a predicted peak fits a budget: "yes", "tight" (within 10 %, the prediction's own error) or "no".
std::string_view fit_word(std::uint64_t need, std::uint64_t budget);

}  // namespace zeroplan::reports
