// Every documented key of a ds_config.json: its type as DeepSpeed takes it, limits, old names and replacements, and
// whether the section is strict (unknown keys refused, values converted) or plain (looked up as they are, unknown keys
// silently ignored). Facts: DeepSpeed 0.19.6. Main types: KeySpec, SectionSpec. One table file per group of sections.
// Depends on models/core only.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

enum class ValueType { kBool, kInteger, kNumber, kText, kChoice, kObject, kList, kAny };

/// "a whole number", "true or false", ...
std::string_view describe(ValueType type);

/// How DeepSpeed reads a section.
enum class Reading {
  kStrict,  ///< unknown keys are refused, values converted, "auto" silently becomes the default
  kPlain,   ///< unknown keys are ignored, values taken as they are
  kOpen,    ///< keys are passed on to something else: unknown ones are no fault
};

/// One key. Built as a literal: KeySpec{"stage", kInteger, "0"}.from(0).to(3).
struct KeySpec {
  std::string_view name;
  ValueType type = ValueType::kAny;
  std::string_view default_text = "null";  ///< the default, as JSON
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  std::string_view choices = "";  ///< of kChoice: "none|cpu|nvme"
  bool any_case = false;          ///< choices are compared without case
  bool nullable = false;
  bool may_be_auto = false;           ///< "auto" is a value of its own here
  std::string_view alias = "";        ///< a second name that DeepSpeed takes
  std::string_view replaced_by = "";  ///< this is an old name; what to write instead
  bool refused = false;               ///< of an old name: no longer accepted
  bool ignored = false;               ///< of an old name: still read by nobody

  constexpr KeySpec from(double value) const {
    KeySpec k = *this;
    k.least = value;
    return k;
  }
  constexpr KeySpec to(double value) const {
    KeySpec k = *this;
    k.most = value;
    return k;
  }
  constexpr KeySpec one_of(std::string_view names) const {
    KeySpec k = *this;
    k.choices = names;
    return k;
  }
  constexpr KeySpec in_any_case() const {
    KeySpec k = *this;
    k.any_case = true;
    return k;
  }
  constexpr KeySpec or_null() const {
    KeySpec k = *this;
    k.nullable = true;
    return k;
  }
  constexpr KeySpec or_auto() const {
    KeySpec k = *this;
    k.may_be_auto = true;
    return k;
  }
  constexpr KeySpec also(std::string_view other) const {
    KeySpec k = *this;
    k.alias = other;
    return k;
  }
  constexpr KeySpec old(std::string_view now) const {
    KeySpec k = *this;
    k.replaced_by = now;
    return k;
  }
  constexpr KeySpec gone() const {
    KeySpec k = *this;
    k.refused = true;
    return k;
  }
  constexpr KeySpec unread() const {
    KeySpec k = *this;
    k.ignored = true;
    return k;
  }
};

/// One section.
struct SectionSpec {
  std::string_view path;  ///< dotted; empty for the document
  Reading reading = Reading::kPlain;
  std::span<const KeySpec> keys;

  /// The key of that name or alias; null if it is unknown.
  const KeySpec* find(std::string_view name) const;
};

/// All sections, the document first.
const std::vector<SectionSpec>& all_sections();
/// The section of a dotted path; null if it is none.
const SectionSpec* find_section(std::string_view path);
/// Dotted paths of all sections that have a key of this name ("" for the document).
std::vector<std::string_view> sections_with_key(std::string_view name);

// The tables.
std::vector<SectionSpec> document_sections();
std::vector<SectionSpec> zero_sections();
std::vector<SectionSpec> precision_sections();
std::vector<SectionSpec> storage_sections();
std::vector<SectionSpec> monitoring_sections();
std::vector<SectionSpec> parallel_sections();

}  // namespace zeroplan::planner::deepspeed
