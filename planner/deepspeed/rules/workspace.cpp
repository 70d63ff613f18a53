#include <algorithm>

#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/rules/rules.h"

namespace zeroplan::planner::deepspeed {

int Workspace::stage() const {
  const Json* zero = filled.find("zero_optimization");
  if (zero != nullptr && zero->is_boolean()) return zero->get<bool>() ? 1 : 0;
  return static_cast<int>(std::clamp<std::int64_t>(integer("zero_optimization.stage", 0), 0, 3));
}

std::string Workspace::offload_device(std::string_view section) const {
  const std::string path = "zero_optimization." + std::string(section);
  const std::string device = word(path + ".device", "none");
  if (device != "none") return device;
  const bool is_param = section == "offload_param";
  return flag(is_param ? "zero_optimization.cpu_offload_param" : "zero_optimization.cpu_offload", false) ? "cpu"
                                                                                                         : "none";
}

bool Workspace::flag(std::string_view path, bool fallback) const {
  const Json* value = filled.find(path);
  return value == nullptr ? fallback : coerce_bool(*value).value_or(fallback);
}

std::int64_t Workspace::integer(std::string_view path, std::int64_t fallback) const {
  const Json* value = filled.find(path);
  return value == nullptr ? fallback : coerce_integer(*value).value_or(fallback);
}

double Workspace::number(std::string_view path, double fallback) const {
  const Json* value = filled.find(path);
  return value == nullptr ? fallback : coerce_number(*value).value_or(fallback);
}

std::string Workspace::word(std::string_view path, std::string_view fallback) const {
  const Json* value = filled.find(path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string(fallback);
}

std::int64_t Workspace::zero_integer(std::string_view name, std::int64_t fallback) const {
  const std::string short_path = "zero_optimization." + std::string(name);
  const std::string long_path = "zero_optimization.stage3_" + std::string(name);
  return integer(filled.has(long_path) ? long_path : short_path, fallback);
}

}  // namespace zeroplan::planner::deepspeed
