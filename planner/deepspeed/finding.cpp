#include "planner/deepspeed/finding.h"

#include <algorithm>

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::size_t kMostFindings = 2000;

std::uint64_t line_of(const Finding& finding) {
  if (!finding.where.is_object()) return 0;
  const auto it = finding.where.find("line");
  return it != finding.where.end() && it->is_number_unsigned() ? it->get<std::uint64_t>() : 0;
}

}  // namespace

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kInfo:
      return "info";
  }
  return "info";
}

Json Finding::to_json() const {
  return {{"severity", to_string(severity)},
          {"key", key},
          {"message", message},
          {"fix", fix},
          {"suggest", suggest},
          {"where", where}};
}

Json Findings::place(const std::string& key) const {
  if (text_ == nullptr || given_ == nullptr) return nullptr;
  const MemberPlace* place = text_->place_of(key);
  if (place == nullptr) return nullptr;
  const Json* value = given_->find(key);
  return {{"file", text_->file},
          {"line", place->value.line},
          {"column", place->value.column},
          {"key", key},
          {"value", value == nullptr || value->is_structured() ? Json(nullptr) : *value}};
}

void Findings::add(Severity severity, std::string key, std::string message, std::string fix, Json suggest) {
  if (all_.size() >= kMostFindings) return;
  Json where = place(key);
  all_.push_back({severity, std::move(key), std::move(message), std::move(fix), std::move(suggest), std::move(where)});
}

void Findings::add_at(Severity severity, std::string key, TextPosition at, std::string message, std::string fix) {
  if (all_.size() >= kMostFindings) return;
  Json where = {{"file", text_ == nullptr ? Json(nullptr) : Json(text_->file)},
                {"line", at.line},
                {"column", at.column},
                {"key", key},
                {"value", nullptr}};
  all_.push_back({severity, std::move(key), std::move(message), std::move(fix), nullptr, std::move(where)});
}

void Findings::error(std::string key, std::string message, std::string fix, Json suggest) {
  add(Severity::kError, std::move(key), std::move(message), std::move(fix), std::move(suggest));
}
void Findings::warning(std::string key, std::string message, std::string fix, Json suggest) {
  add(Severity::kWarning, std::move(key), std::move(message), std::move(fix), std::move(suggest));
}
void Findings::info(std::string key, std::string message, std::string fix, Json suggest) {
  add(Severity::kInfo, std::move(key), std::move(message), std::move(fix), std::move(suggest));
}

bool Findings::has_error(std::string_view key) const {
  return std::any_of(all_.begin(), all_.end(),
                     [key](const Finding& f) { return f.severity == Severity::kError && f.key == key; });
}

std::size_t Findings::count(Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [severity](const Finding& f) { return f.severity == severity; }));
}

std::vector<Finding> Findings::sorted() const {
  std::vector<Finding> sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return a.severity != b.severity ? a.severity < b.severity : line_of(a) < line_of(b);
  });
  return sorted;
}

}  // namespace zeroplan::planner::deepspeed
