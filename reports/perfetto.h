// Simulated steps as a trace that ui.perfetto.dev and chrome://tracing load: one track a lane, one counter a tier.
// Format: "Trace Event Format" (Chromium project), JSON object form. Main function: perfetto_trace.
#pragma once

#include "models/core/json.h"
#include "planner/plan.h"
#include "simulator/event_simulator.h"

namespace zeroplan::reports {

/// \param simulation  of `plan`, with its timeline kept
Json perfetto_trace(const planner::Plan& plan, const simulator::Simulation& simulation);

}  // namespace zeroplan::reports
