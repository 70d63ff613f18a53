#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/near_names.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/rules/value_types.h"
#include "planner/deepspeed/schema/schema.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

std::string join(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

/// Name as users write it: the stage3_ alias where there is one.
std::string_view written_name(const KeySpec& key) {
  return key.alias.empty() ? key.name : key.alias;
}

std::string nearest_key(const SectionSpec& section, std::string_view name) {
  std::vector<std::string_view> names;
  for (const KeySpec& key : section.keys) {
    if (!key.replaced_by.empty()) continue;
    names.push_back(key.name);
    if (!key.alias.empty()) names.push_back(key.alias);
  }
  return nearest_name(name, names);
}

/// A key that another section has: where it belongs. Common words ("enabled", "type") belong nowhere in particular.
std::string other_home(std::string_view section, std::string_view name) {
  if (name == "enabled" || name == "type" || name == "params" || name == "dtype" || name == "profile") return "";
  for (const std::string_view home : sections_with_key(name)) {
    if (home != section && home != "bfloat16" && !home.starts_with("autotuning")) {
      return home.empty() ? std::string("the top level") : std::string(home);
    }
  }
  return "";
}

bool is_remark_key(std::string_view name) {
  return name.starts_with("_") || name.starts_with("//") || name.starts_with("#") || name == "comment" ||
         name == "description";
}

void report_unknown(Workspace& work, const SectionSpec& section, const std::string& name) {
  const std::string path = join(section.path, name);
  const bool strict = section.reading == Reading::kStrict;
  const std::string near = nearest_key(section, name);
  const std::string home = other_home(section.path, name);
  const std::string where = section.path.empty() ? "the top level" : std::string(section.path);
  const std::string fate = strict ? "DeepSpeed refuses it" : "DeepSpeed silently ignores it";
  std::string message = fmt::format("{} is no key of {}: {}", name, where, fate);
  std::string fix = "remove the key";
  Json suggest = nullptr;
  if (!home.empty() && (near.empty() || near != name)) {
    message = fmt::format("{} belongs to {}, not into {}: {}", name,
                          home == "the top level" ? "the top level of the file" : home, where, fate);
    fix = fmt::format("move {} to {}", name, home);
  } else if (!near.empty()) {
    message += fmt::format("; did you mean {}?", near);
    fix = fmt::format("write {}", near);
    suggest = near;
  }
  if (strict) {
    work.findings.error(path, message, fix, suggest);
  } else if (near.empty() && home.empty() && (section.path.empty() || is_remark_key(name))) {
    work.findings.info(path, message, "fine if another program reads it; otherwise remove the key");
  } else {
    work.findings.warning(path, message, fix, suggest);
  }
}

void report_old(Workspace& work, const SectionSpec& section, const KeySpec& key, const std::string& path) {
  const std::string now(key.replaced_by);
  if (key.refused) {
    work.findings.error(path, fmt::format("{} is an old name that DeepSpeed refuses", key.name), "write " + now, now);
  } else if (key.ignored) {
    work.findings.warning(path, fmt::format("{} is an old name that is ignored today", key.name), "write " + now, now);
  } else {
    const std::string new_name = now.substr(0, now.find(':'));
    const std::string new_path = join(section.path, new_name);
    const std::string short_path = new_name.starts_with("stage3_") ? join(section.path, new_name.substr(7)) : new_path;
    if (work.given.has(new_path) || work.given.has(short_path)) {
      work.findings.error(path,
                          fmt::format("{} is an old name and stands together with its replacement {}: DeepSpeed stops",
                                      key.name, new_name),
                          fmt::format("remove {}", key.name));
    } else {
      work.findings.warning(path, fmt::format("{} is deprecated", key.name), "write " + now, now);
    }
  }
}

void check_member(Workspace& work, const SectionSpec& section, const std::string& name, const Json& value) {
  const KeySpec* key = section.find(name);
  if (key == nullptr) {
    if (section.reading != Reading::kOpen) report_unknown(work, section, name);
    return;
  }
  const std::string path = join(section.path, name);
  const bool old_and_given = !key->replaced_by.empty() && !(section.path.empty() && key->name == "bfloat16");
  if (old_and_given) report_old(work, section, *key, path);
  if (key->refused || key->ignored) return;
  if (!key->alias.empty() && name != key->name && (value != "auto" || work.someone_fills()) &&
      work.given.has(join(section.path, key->name)) && section.reading == Reading::kStrict) {
    work.findings.error(
        path, fmt::format("{} and {} are two names of one key: DeepSpeed refuses both together", key->name, name),
        fmt::format("keep {}", written_name(*key)));
  }
  if (value == "auto" && !key->may_be_auto) return;  // has rules of its own
  if (is_batch_key(path)) return;
  check_value(work, section.reading, *key, path, value);
}

void check_section(Workspace& work, const SectionSpec& section) {
  const Json* node = section.path.empty() ? &work.given.root() : work.given.find(section.path);
  if (node == nullptr || !node->is_object()) return;
  for (const auto& [name, value] : node->items()) check_member(work, section, name, value);
}

}  // namespace

void check_keys_and_types(Workspace& work) {
  for (const SectionSpec& section : all_sections()) {
    if (section.path == "bfloat16" && work.given.has("bf16")) {
      if (work.given.has("bfloat16")) {
        work.findings.warning("bfloat16", "bfloat16 is an old name and is ignored beside bf16", "remove bfloat16");
      }
      continue;
    }
    check_section(work, section);
  }
  if (work.given.has("bfloat16") && !work.given.has("bf16")) {
    const std::string note =
        work.someone_fills() ? ", which the trainer and Accelerate do not know: they write a section bf16 beside it, "
                               "and DeepSpeed then ignores bfloat16"
                             : "";
    work.findings.warning("bfloat16", "bfloat16 is an old name of bf16" + note, "write bf16", "bf16");
  }
}

}  // namespace zeroplan::planner::deepspeed
