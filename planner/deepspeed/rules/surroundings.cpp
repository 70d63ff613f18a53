#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/deepspeed/accelerate_config.h"
#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// Fields of Accelerate's own file that a DeepSpeed file beside it forbids.
constexpr std::array<std::string_view, 9> kOwnFields = {
    "gradient_accumulation_steps", "gradient_clipping",      "zero_stage",
    "offload_optimizer_device",    "offload_param_device",   "offload_param_nvme_path",
    "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision"};

bool is_own_field(const std::string& name) {
  return std::find(kOwnFields.begin(), kOwnFields.end(), name) != kOwnFields.end();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::optional<std::uint64_t> count_of(const std::string& text) {
  const auto value = coerce_integer(Json(text));
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

}  // namespace

void check_accelerate_config(Workspace& work) {
  if (!work.input.accelerate_config) return;
  const AccelerateConfig config = accelerate_config_of(work.input);
  for (const std::string& problem : config.problems) {
    work.findings.warning("accelerate", "the Accelerate configuration: " + problem,
                          "write it with `accelerate config`");
  }
  std::vector<std::string> conflicts;
  if (const Json* section = config.deepspeed_section()) {
    for (const auto& [name, value] : section->items()) {
      if (is_own_field(name)) conflicts.push_back(name);
    }
  }
  const std::string precision = config.text_or("mixed_precision", "");
  if (config.find("mixed_precision") != nullptr) conflicts.emplace_back("mixed_precision");
  if (!conflicts.empty()) {
    work.findings.error(
        "accelerate",
        fmt::format("with a DeepSpeed file these fields of the Accelerate configuration are refused: {}",
                    joined(conflicts)),
        "remove them from the Accelerate configuration; the DeepSpeed file says them");
  }
  const std::string other = precision == "bf16" ? "fp16" : precision == "fp16" ? "bf16" : "";
  if (!other.empty() && work.flag(other + ".enabled", false) && !work.findings.has_error(other + ".enabled")) {
    work.findings.error("accelerate",
                        fmt::format("mixed_precision is {}, but the DeepSpeed file turns {} on", precision, other),
                        fmt::format("say {} in both, or leave mixed_precision out", other));
  }
  const std::string kind = config.text_or("distributed_type", "");
  if (!kind.empty() && kind != "DEEPSPEED") {
    work.findings.error("accelerate",
                        fmt::format("distributed_type is {}, so that the DeepSpeed file is not used", kind),
                        "write DEEPSPEED", "DEEPSPEED");
  }
  const auto processes = count_of(config.text_or("num_processes", ""));
  if (processes && *processes != work.input.training.gpus) {
    work.findings.warning(
        "accelerate", fmt::format("num_processes is {}, the run has {} ranks", *processes, work.input.training.gpus),
        fmt::format("write {}", work.input.training.gpus), work.input.training.gpus);
  }
}

void check_environment(Findings& findings, const CheckInput& input) {
  const auto& env = input.environment;
  const auto get = [&env](const char* name) -> const std::string* {
    const auto it = env.find(name);
    return it == env.end() ? nullptr : &it->second;
  };
  constexpr std::array<const char*, 5> kRendezvous = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  std::vector<std::string> missing;
  std::size_t present = 0;
  for (const char* name : kRendezvous) {
    if (get(name) != nullptr) {
      ++present;
    } else {
      missing.emplace_back(name);
    }
  }
  if (present > 0 && !missing.empty()) {
    findings.error(
        "env",
        fmt::format("the rendezvous needs RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; missing: {}",
                    joined(missing)),
        "start through a launcher, or set all five (one GPU: 0, 0, 1, localhost, a free port)");
  }
  if (const std::string* world = get("WORLD_SIZE")) {
    const auto ranks = count_of(*world);
    if (!ranks || *ranks == 0) {
      findings.error("env", fmt::format("WORLD_SIZE is {}, expected a positive integer", quoted_text(*world)),
                     "set the number of ranks");
    } else if (*ranks != input.training.gpus) {
      findings.error("env",
                     fmt::format("WORLD_SIZE is {}, the run has {} ranks: batch sizes and shards follow WORLD_SIZE",
                                 *ranks, input.training.gpus),
                     fmt::format("set WORLD_SIZE to {}, or say --gpus {}", input.training.gpus, *ranks),
                     input.training.gpus);
    }
    const std::string* rank = get("RANK");
    const auto own = rank == nullptr ? std::nullopt : count_of(*rank);
    if (ranks && own && *own >= *ranks) {
      findings.error("env", fmt::format("RANK is {}, expected less than WORLD_SIZE {}", *own, *ranks),
                     "number ranks from 0");
    }
  }
  if (const std::string* port = get("MASTER_PORT")) {
    const auto number = count_of(*port);
    if (!number || *number == 0 || *number > 65535) {
      findings.error("env", fmt::format("MASTER_PORT is {}, expected 1 to 65535", quoted_text(*port)),
                     "set a free port", 29500);
    }
  }
  if (const std::string* visible = get("CUDA_VISIBLE_DEVICES")) {
    const std::uint64_t cards = split(*visible, ',').size();
    const std::uint64_t needed = input.training.ranks_per_node();
    if (cards < needed) {
      findings.error("env",
                     fmt::format("CUDA_VISIBLE_DEVICES shows {} cards, a node's {} ranks need one each", cards, needed),
                     "show more cards, or start fewer ranks");
    }
  }
  if (const std::string* fields = get("ACCELERATE_CONFIG_DS_FIELDS"); fields != nullptr && input.config_text) {
    std::vector<std::string> conflicts;
    for (const std::string& name : split(*fields, ',')) {
      if (is_own_field(name)) conflicts.push_back(name);
    }
    if (!conflicts.empty() && input.reader != ConfigReader::kDeepspeed) {
      findings.error("env",
                     fmt::format("ACCELERATE_CONFIG_DS_FIELDS names {}: with a DeepSpeed file these are refused",
                                 joined(conflicts)),
                     "remove these fields from the Accelerate configuration");
    }
  }
  if (const std::string* timeout = get("DEEPSPEED_TIMEOUT"); timeout != nullptr && !count_of(*timeout)) {
    findings.error("env",
                   fmt::format("DEEPSPEED_TIMEOUT is {}, expected minutes as a whole number", quoted_text(*timeout)),
                   "set 30", 30);
  }
}

}  // namespace zeroplan::planner::deepspeed
