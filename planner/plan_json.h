// Plans as files (docs/plan-format.md). Writing is plain; reading trusts nothing: the skeleton is built again from
// model, training and strategy, and the file may differ from it only in order, waits and offsets.
#pragma once

#include <filesystem>
#include <string>

#include "models/core/json.h"
#include "planner/plan.h"

namespace zeroplan::planner {

/// The largest plan file that is written or read.
constexpr Bytes kMostPlanBytes{std::uint64_t{16} << 20};

Json plan_to_json(const Plan& plan);
/// The text of a plan file; equal plans give equal bytes. \throws Error{kUsage} beyond kMostPlanBytes.
std::string plan_to_text(const Plan& plan);

/// \throws Error{kInvalidInput} for a document that is no plan, or whose buffers, tasks or programs are not those that
/// its model
///   and decisions demand. Order and memory are not checked here: see verify.h.
Plan plan_from_json(const Json& document, const std::string& file);

/// Reads, matches and verifies. \throws Error{kInvalidInput, kIo}
Plan load_plan(const std::filesystem::path& path);

}  // namespace zeroplan::planner
