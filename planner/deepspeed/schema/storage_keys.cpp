#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {
namespace {

using enum ValueType;

constexpr KeySpec kAio[] = {
    KeySpec{"block_size", kInteger, "1048576"}.from(1),
    KeySpec{"queue_depth", kInteger, "8"}.from(1),
    KeySpec{"intra_op_parallelism", kInteger, "1"}.from(1),
    {"single_submit", kBool, "false"},
    {"overlap_events", kBool, "true"},
    {"use_gds", kBool, "false"},
    KeySpec{"thread_count", kInteger}.old("intra_op_parallelism").unread(),
};

constexpr KeySpec kCheckpoint[] = {
    KeySpec{"tag_validation", kChoice, "\"Warn\""}.one_of("Ignore|Warn|Fail").in_any_case(),
    {"load_universal", kBool, "false"},
    {"use_node_local_storage", kBool, "false"},
    {"parallel_write", kObject},
    {"checkpoint_serialization", kBool, "true"},
    KeySpec{"writer", kObject}.or_null(),
};

constexpr KeySpec kParallelWrite[] = {{"pipeline_stage", kBool, "false"}};

constexpr KeySpec kWriter[] = {
    KeySpec{"type", kChoice, "\"FAST\""}.one_of("MOCK|PYTHON|FAST").in_any_case(),
    {"decoupled", kBool, "false"},
    KeySpec{"io_buffer_size", kInteger, "67108864"}.from(1),
    {"io_buffer_double", kBool, "true"},
    KeySpec{"io_multiplier", kInteger, "1"}.from(1),
    KeySpec{"data_parallel", kChoice}.one_of("REPLICA|SOCKET|MACHINE").in_any_case().or_null(),
    {"show_statistics", kBool, "false"},
};

constexpr KeySpec kActivationCheckpointing[] = {
    {"partition_activations", kBool, "false"},           {"cpu_checkpointing", kBool, "false"},
    {"contiguous_memory_optimization", kBool, "false"},  KeySpec{"number_checkpoints", kInteger}.or_null(),
    {"synchronize_checkpoint_boundary", kBool, "false"}, {"profile", kBool, "false"},
};

}  // namespace

std::vector<SectionSpec> storage_sections() {
  return {{"aio", Reading::kPlain, kAio},
          {"checkpoint", Reading::kPlain, kCheckpoint},
          {"checkpoint.parallel_write", Reading::kPlain, kParallelWrite},
          {"checkpoint.writer", Reading::kPlain, kWriter},
          {"activation_checkpointing", Reading::kPlain, kActivationCheckpointing}};
}

}  // namespace zeroplan::planner::deepspeed
