#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/deepspeed/hidden_size.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::uint64_t kLeastSwapBytes = 1'048'576;

struct LargestParameter {
  std::string name;
  std::uint64_t elements = 0;
};

std::uint64_t config_count(const Json& config, std::string_view key) {
  if (!config.is_object()) return 0;
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number_integer()) return 0;
  const auto value = it->get<std::int64_t>();
  return value > 0 && value < (std::int64_t{1} << 32) ? static_cast<std::uint64_t>(value) : 0;
}

/// The largest parameter of the model; of an unknown family its embedding, vocabulary x width.
std::optional<LargestParameter> largest_parameter(const CheckInput& input) {
  LargestParameter largest;
  if (input.model) {
    for (const models::Parameter& parameter : input.model->parameters) {
      const std::uint64_t elements = parameter.shape.elements().count();
      if (elements > largest.elements) largest = {parameter.name, elements};
    }
  }
  const auto hidden = find_hidden_size(input.model_config);
  std::uint64_t vocabulary = config_count(input.model_config, "vocab_size");
  if (vocabulary == 0 && input.model_config.is_object() && input.model_config.contains("text_config")) {
    vocabulary = config_count(input.model_config["text_config"], "vocab_size");
  }
  if (!input.model && hidden && vocabulary > 0 && vocabulary * hidden->value > largest.elements) {
    largest = {fmt::format("the embedding ({} x {})", vocabulary, hidden->value), vocabulary * hidden->value};
  }
  if (largest.elements == 0) return std::nullopt;
  return largest;
}

void check_paths(Workspace& work) {
  const int stage = work.stage();
  for (const char* section : {"offload_optimizer", "offload_param"}) {
    const std::string path = fmt::format("zero_optimization.{}", section);
    const std::string device = work.offload_device(section);
    if (device == "none") continue;
    const bool is_param = std::string_view(section) == "offload_param";
    if (is_param && stage != 3) {
      work.findings.warning(
          path,
          fmt::format("offload_param to {} has no effect at stage {}: parameters are partitioned at stage 3 only",
                      device, stage),
          "set the stage to 3, or remove offload_param");
      continue;
    }
    if (!is_param && stage == 0) {
      work.findings.error(
          path,
          fmt::format(
              "offload_optimizer to {} needs ZeRO: at stage 0 the CPU optimizer meets parameters on the GPU and "
              "fails",
              device),
          "set the stage to 1, 2 or 3");
      continue;
    }
    if (device != "nvme") continue;
    if (stage != 3) {
      work.findings.error(
          path + ".device",
          fmt::format("device nvme needs stage 3: at stage {} DeepSpeed silently keeps the states in host "
                      "memory",
                      stage),
          "set the stage to 3, or write cpu", "cpu");
      continue;
    }
    const Json* nvme = work.filled.find(path + ".nvme_path");
    if (nvme == nullptr || nvme->is_null() || *nvme == "" || *nvme == "none") {
      work.findings.error(path + ".nvme_path",
                          fmt::format("{} goes to nvme, but nvme_path is not given: DeepSpeed stops", section),
                          "write the path of a folder on the fast disk");
    }
  }
}

void check_ratio(Workspace& work) {
  const double ratio = work.number("zero_optimization.offload_optimizer.ratio", 1.0);
  if (ratio < 1 && work.stage() != 3) {
    work.findings.error("zero_optimization.offload_optimizer.ratio",
                        fmt::format("a partial offload (ratio {}) works at stage 3 only", shown_number(ratio)),
                        "write 1.0", 1.0);
  }
}

void check_parameter_buffers(Workspace& work) {
  if (work.stage() != 3 || work.offload_device("offload_param") != "nvme") return;
  const std::string size_path = "zero_optimization.offload_param.buffer_size";
  const std::string count_path = "zero_optimization.offload_param.buffer_count";
  const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(work.integer(size_path, 100'000'000), 0));
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(work.integer(count_path, 5), 0));
  const auto largest = largest_parameter(work.input);
  if (largest) {
    const std::uint64_t ranks = work.input.training.gpus;
    const std::uint64_t shard = divide_up(largest->elements, ranks);
    const auto block = static_cast<std::uint64_t>(std::max<std::int64_t>(work.integer("aio.block_size", 1'048'576), 1));
    const bool swapped = shard >= std::max(kLeastSwapBytes, block) / 2;
    if (swapped && shard > size) {
      const double pinned = static_cast<double>(count) * 2.0 * static_cast<double>(shard);
      work.findings.error(
          size_path,
          fmt::format(
              "{} has {} elements, {} on each of {} rank{}, more than buffer_size {}: DeepSpeed stops with \"More "
              "elements than buffer size\"",
              largest->name, largest->elements, shard, ranks, ranks == 1 ? "" : "s", size),
          fmt::format("write {}; {} buffers then pin {} of host memory per rank", shard, count,
                      format_size(Bytes(static_cast<std::uint64_t>(std::min(pinned, 1e18))))),
          shard);
    }
  }
  if (!work.input.model || work.input.model->experts == 0) return;
  const std::string& family = work.input.model->family;
  const bool leaf = family == "mixtral" || family == "qwen2_moe" || family == "qwen3_moe";
  const std::uint64_t needed = leaf ? 3 * work.input.model->experts : 3;
  if (count < needed) {
    work.findings.warning(
        count_path,
        fmt::format(
            "a mixture-of-experts block is fetched as a whole: {} weights of {} experts, but there are {} buffers",
            needed, work.input.model->experts, count),
        fmt::format("write at least {}", needed), needed);
  }
}

void check_optimizer_buffers(Workspace& work) {
  if (work.stage() != 3 || work.offload_device("offload_optimizer") != "nvme") return;
  const std::string path = "zero_optimization.offload_optimizer.buffer_count";
  std::string type = work.word("optimizer.type", "adamw");
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::uint64_t states = type == "lion" || type == "adagrad" ? 3 : 4;
  const bool reads = work.flag("zero_optimization.offload_optimizer.pipeline_read", false);
  const bool writes = work.flag("zero_optimization.offload_optimizer.pipeline_write", false);
  const std::uint64_t needed = states * (1 + (reads ? 1 : 0) + (writes ? 1 : 0));
  const std::int64_t count = work.integer(path, 4);
  if (count >= 0 && static_cast<std::uint64_t>(count) < needed) {
    work.findings.error(
        path,
        fmt::format("buffer_count is {}, but the optimizer keeps {} tensors per parameter{}: {} buffers are needed",
                    count, states, reads || writes ? " and the pipeline holds several groups at once" : "", needed),
        fmt::format("write at least {}", needed), needed);
  }
}

}  // namespace

void check_offload(Workspace& work) {
  check_paths(work);
  check_ratio(work);
  check_parameter_buffers(work);
  check_optimizer_buffers(work);
}

void check_saving(Workspace& work) {
  if (work.stage() != 3) return;
  const std::string key = "zero_optimization.stage3_gather_16bit_weights_on_model_save";
  const bool gathers = work.flag(key, false) ||
                       work.flag("zero_optimization.gather_16bit_weights_on_model_save", false) ||
                       work.flag("zero_optimization.stage3_gather_fp16_weights_on_model_save", false);
  if (!gathers) {
    const std::string message =
        "at stage 3 each rank holds slices of the weights: without gather_16bit_weights_on_model_save a saved model "
        "has no weights, or empty "
        "tensors of shape [0]";
    const std::string fix = "write true, or recover the weights with zero_to_fp32.py";
    if (work.someone_fills()) {
      work.findings.warning(key, message, fix, true);
    } else {
      work.findings.info(key, message, fix, true);
    }
  }
  if (work.offload_device("offload_optimizer") == "nvme") {
    work.findings.info("zero_optimization.offload_optimizer.device",
                       "with the optimizer on NVMe zero_to_fp32.py cannot rebuild the weights from a checkpoint",
                       "save 16-bit weights with stage3_gather_16bit_weights_on_model_save");
  }
}

}  // namespace zeroplan::planner::deepspeed
