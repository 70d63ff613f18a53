#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {

std::string_view describe(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return "true or false";
    case ValueType::kInteger:
      return "an integer";
    case ValueType::kNumber:
      return "a number";
    case ValueType::kText:
      return "a text";
    case ValueType::kChoice:
      return "one of the known names";
    case ValueType::kObject:
      return "an object";
    case ValueType::kList:
      return "a list";
    case ValueType::kAny:
      return "any value";
  }
  return "any value";
}

const KeySpec* SectionSpec::find(std::string_view name) const {
  for (const KeySpec& key : keys) {
    if (key.name == name || (!key.alias.empty() && key.alias == name)) return &key;
  }
  return nullptr;
}

const std::vector<SectionSpec>& all_sections() {
  static const std::vector<SectionSpec> sections = [] {
    std::vector<SectionSpec> all;
    for (auto table : {document_sections, zero_sections, precision_sections, storage_sections, monitoring_sections,
                       parallel_sections}) {
      for (const SectionSpec& section : table()) all.push_back(section);
    }
    return all;
  }();
  return sections;
}

const SectionSpec* find_section(std::string_view path) {
  for (const SectionSpec& section : all_sections()) {
    if (section.path == path) return &section;
  }
  return nullptr;
}

std::vector<std::string_view> sections_with_key(std::string_view name) {
  std::vector<std::string_view> paths;
  for (const SectionSpec& section : all_sections()) {
    const KeySpec* key = section.find(name);
    if (key != nullptr && key->replaced_by.empty()) paths.push_back(section.path);
  }
  return paths;
}

}  // namespace zeroplan::planner::deepspeed
