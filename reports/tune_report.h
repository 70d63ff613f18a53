// What `tune` answers: the document of interface.md section 5 and its text. Depends on planner/tuner.
#pragma once

#include "models/core/json.h"
#include "planner/tuner/tuner.h"

namespace zeroplan::reports {

/// What the answer is about.
struct TuneSubject {
  const models::Model& model;
  const planner::Machine& machine;
  const planner::TrainingSpec& training;
  double elapsed_s = 0;
};

/// The keys `model, framework, gpus, nodes, candidates_considered, elapsed_ms, ranked, rejected, pareto, what_if,
/// search, notes`. `candidates_considered` are leaves that were scheduled and simulated; `search` says what became of
/// the others.
Json tune_document(const planner::TuneResult& result, const TuneSubject& subject);

/// For people: ranked table, reasons of rank 1, what lost, what was searched.
std::string tune_text(const planner::TuneResult& result, const TuneSubject& subject);

}  // namespace zeroplan::reports
