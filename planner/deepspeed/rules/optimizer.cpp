#include <algorithm>

#include <fmt/format.h>

#include "planner/deepspeed/near_names.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/schema/class_parameters.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool is_own(const std::string& type) {
  const ClassSpec* spec = find_optimizer_class(type);
  return spec != nullptr && !spec->is_torch;
}

void check_type(Workspace& work, const std::string& type) {
  if (find_optimizer_class(type) != nullptr) return;
  std::vector<std::string_view> names;
  for (const ClassSpec& spec : optimizer_classes()) names.push_back(spec.name);
  const std::string near = nearest_name(type, names);
  work.findings.error(
      "optimizer.type",
      fmt::format("optimizer type {} is neither one of DeepSpeed's nor a class of torch.optim", quoted_text(type)),
      near.empty() ? "write AdamW, Adam, Lion, Adagrad, Lamb, or the exact name of a torch.optim class"
                   : fmt::format("write {}", near),
      near.empty() ? Json(nullptr) : Json(near));
}

void check_with_zero(Workspace& work, const std::string& type) {
  if (work.stage() == 0) return;
  const std::string name = lower_case(type);
  if (name == "onebitadam" || name == "zerooneadam" || name == "onebitlamb") {
    work.findings.error("optimizer.type", fmt::format("{} does not work with any ZeRO stage", type),
                        "set zero_optimization.stage to 0, or use AdamW", "AdamW");
    return;
  }
  const bool supported = name == "adam" || name == "adamw" || name == "adagrad" || name == "lion" || name == "muon";
  const bool allowed = work.flag("zero_allow_untested_optimizer", false);
  if (!supported && !allowed) {
    work.findings.error("optimizer.type",
                        fmt::format("{} is not on ZeRO's list of tested optimizers: DeepSpeed stops", type),
                        "set zero_allow_untested_optimizer to true, or use AdamW", "AdamW");
  }
}

void check_parameters(Workspace& work, const std::string& type) {
  const Json* params = work.filled.find("optimizer.params");
  if (params == nullptr || !params->is_object()) return;
  if (params->contains("max_grad_norm") && is_own(type)) {
    work.findings.error("optimizer.params.max_grad_norm",
                        "max_grad_norm is no parameter of the optimizer: DeepSpeed stops",
                        "move it to gradient_clipping at the top level");
  }
  for (const char* name : {"lr", "eps", "weight_decay"}) {
    if (std::string_view(name) == "eps" && type == "Adafactor") continue;  // two numbers there
    const std::string path = fmt::format("optimizer.params.{}", name);
    const Json* value = work.filled.find(path);
    if (value == nullptr || value->is_number() || *value == "auto" || work.findings.has_error(path)) continue;
    work.findings.error(path,
                        fmt::format("{} is {} ({}), expected a number", path, shown_value(*value), kind_of(*value)),
                        "write a number without quotes");
  }
  const Json* betas = work.filled.find("optimizer.params.betas");
  if (betas != nullptr && *betas != "auto" && !work.findings.has_error("optimizer.params.betas") &&
      (!betas->is_array() || betas->size() != 2 || !(*betas)[0].is_number() || !(*betas)[1].is_number())) {
    work.findings.error("optimizer.params.betas", fmt::format("betas is {}, expected two numbers", shown_value(*betas)),
                        "write [0.9, 0.999]", Json::array({0.9, 0.999}));
  }
  const ClassSpec* spec = find_optimizer_class(type);
  if (spec == nullptr) return;
  const std::vector<std::string_view> known = names_of(spec->parameters);
  for (const auto& [key, value] : params->items()) {
    if (key == "max_grad_norm" || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_name(key, known);
    work.findings.error(
        "optimizer.params." + key, fmt::format("{} is no parameter of {}: its constructor fails", key, spec->name),
        near.empty() ? "remove it" : fmt::format("write {}", near), near.empty() ? Json(nullptr) : Json(near));
  }
  if (spec->name != "Adam" && spec->name != "AdamW") return;
  if (work.flag("optimizer.params.amsgrad", false) && work.offload_device("offload_optimizer") == "none" &&
      !work.flag("optimizer.params.torch_adam", false)) {
    work.findings.error("optimizer.params.amsgrad", "DeepSpeed's fused Adam does not support amsgrad", "write false",
                        false);
  }
}

/// True for names of the optimizers that DeepSpeed's CPU offload accepts.
bool is_cpu_optimizer(const std::string& name) {
  return contains(name, "cpuadam") || contains(name, "cpulion");
}

void check_client(Workspace& work, const std::string& client) {
  const std::string name = lower_case(client);
  const bool is_dummy = contains(name, "dummyoptim");
  const bool has_section = work.given.has("optimizer");
  const std::string device = work.offload_device("offload_optimizer");
  if (work.is_accelerate()) {
    if (has_section && !is_dummy) {
      work.findings.error("optimizer",
                          fmt::format("the file has an optimizer and the code has one ({}): Accelerate stops", client),
                          "remove the section, or pass DummyOptim in the code");
    } else if (!has_section && is_dummy) {
      work.findings.error("optimizer", "DummyOptim is used, but the file has no optimizer section: Accelerate stops",
                          "write an optimizer section, or pass a real optimizer");
    }
  } else if (has_section) {
    work.findings.warning("optimizer", fmt::format("the code's optimizer ({}) wins over this section", client),
                          "remove one of them");
  }
  const bool forced = work.flag("zero_force_ds_cpu_optimizer", true);
  if (device != "none" && !is_cpu_optimizer(name) && !is_dummy) {
    const std::string plain = name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
    const bool converted = work.someone_fills() && forced;
    if (converted) {
      work.findings.warning(
          "zero_optimization.offload_optimizer",
          fmt::format("the optimizer runs on the CPU: Accelerate replaces {} by DeepSpeedCPUAdam (Adagrad by its CPU "
                      "form), unless zero_force_ds_cpu_optimizer is false",
                      client),
          "use an optimizer section, or DeepSpeedCPUAdam in the code");
    } else if (forced) {
      work.findings.error(
          "zero_optimization.offload_optimizer",
          fmt::format("offload_optimizer to {} needs DeepSpeedCPUAdam, but the code passes {}: DeepSpeed stops while "
                      "zero_force_ds_cpu_optimizer is true (the default)",
                      device, client),
          "write an optimizer section, pass DeepSpeedCPUAdam, or set zero_force_ds_cpu_optimizer to false");
    } else if (contains(plain, "lamb")) {
      work.findings.error("zero_optimization.offload_optimizer", "Lamb does not run on tensors of the CPU",
                          "use AdamW");
    }
  }
  const bool tested =
      contains(name, "adam") || contains(name, "adagrad") || contains(name, "lion") || contains(name, "muon");
  const bool exact = tested && !contains(name, "8bit") && !contains(name, "transformers") &&
                     !contains(name, "bitsandbytes") && !contains(name, "bnb") && !contains(name, "paged") &&
                     !contains(name, "radam") && !contains(name, "nadam");
  if (!work.someone_fills() && work.stage() > 0 && !exact && !work.flag("zero_allow_untested_optimizer", false)) {
    work.findings.error(
        "zero_allow_untested_optimizer",
        fmt::format("{} is not on ZeRO's list of tested optimizers (exact types only): DeepSpeed stops", client),
        "set zero_allow_untested_optimizer to true", true);
  }
}

}  // namespace

void check_optimizer(Workspace& work) {
  const std::string type = work.word("optimizer.type", "");
  if (!type.empty()) {
    check_type(work, type);
    check_with_zero(work, type);
    check_parameters(work, type);
    if (lower_case(type) == "lamb" && work.flag("fp16.enabled", false) && work.number("fp16.loss_scale", 0) > 0) {
      work.findings.error("fp16.loss_scale", "Lamb needs dynamic loss scaling", "write 0", 0);
    }
    if (work.flag("optimizer.params.torch_adam", false) && work.offload_device("offload_optimizer") != "none" &&
        work.flag("zero_force_ds_cpu_optimizer", true)) {
      work.findings.warning("optimizer.params.torch_adam",
                            "torch_adam with offload_optimizer runs torch's Adam on the CPU, far slower",
                            "remove torch_adam");
    }
  } else if (work.given.has("optimizer")) {
    const Json* section = work.given.find("optimizer");
    if (section->is_object()) {
      work.findings.warning("optimizer", "the optimizer section has no type, so that DeepSpeed ignores it",
                            "write a type", "AdamW");
    }
  }
  if (work.input.client_optimizer) check_client(work, *work.input.client_optimizer);
  if (work.is_trainer() && work.given.has("optimizer") && contains(lower_case(work.arguments.optim), "adafactor")) {
    work.findings.error("args",
                        "the trainer's optim is adafactor, but the file has an optimizer section: both cannot be",
                        "remove the optimizer section, or the argument");
  }
}

}  // namespace zeroplan::planner::deepspeed
