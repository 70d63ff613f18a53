#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {
namespace {

using enum ValueType;

constexpr KeySpec kFlopsProfiler[] = {
    {"enabled", kBool, "false"},
    {"profile_step", kInteger, "1"},
    {"module_depth", kInteger, "-1"},
    {"top_modules", kInteger, "1"},
    {"detailed", kBool, "true"},
    KeySpec{"output_file", kText}.or_null(),
    {"recompute_fwd_factor", kNumber, "0.0"},
};

constexpr KeySpec kCommsLogger[] = {
    {"enabled", kBool, "false"}, {"prof_all", kBool, "true"}, {"prof_ops", kList},
    {"verbose", kBool, "false"}, {"debug", kBool, "false"},
};

constexpr KeySpec kTensorboard[] = {
    {"enabled", kBool, "false"},
    {"output_path", kText, "\"\""},
    {"job_name", kText, "\"DeepSpeedJobName\""},
};

constexpr KeySpec kWandb[] = {
    {"enabled", kBool, "false"},
    KeySpec{"group", kText}.or_null(),
    KeySpec{"team", kText}.or_null(),
    {"project", kText, "\"deepspeed\""},
};

constexpr KeySpec kComet[] = {
    {"enabled", kBool, "false"},
    {"samples_log_interval", kInteger, "100"},
    KeySpec{"project", kText}.or_null(),
    KeySpec{"workspace", kText}.or_null(),
    KeySpec{"api_key", kText}.or_null(),
    KeySpec{"experiment_name", kText}.or_null(),
    KeySpec{"experiment_key", kText}.or_null(),
    KeySpec{"online", kBool}.or_null(),
    KeySpec{"mode", kText}.or_null(),
};

constexpr KeySpec kThroughputTimer[] = {{"enabled", kBool, "true"}, {"synchronized", kBool, "true"}};
constexpr KeySpec kTimers[] = {{"throughput", kObject}};

}  // namespace

std::vector<SectionSpec> monitoring_sections() {
  return {{"flops_profiler", Reading::kPlain, kFlopsProfiler},
          {"comms_logger", Reading::kStrict, kCommsLogger},
          {"tensorboard", Reading::kStrict, kTensorboard},
          {"csv_monitor", Reading::kStrict, kTensorboard},
          {"wandb", Reading::kStrict, kWandb},
          {"comet", Reading::kStrict, kComet},
          {"timers", Reading::kPlain, kTimers},
          {"timers.throughput", Reading::kStrict, kThroughputTimer}};
}

}  // namespace zeroplan::planner::deepspeed
