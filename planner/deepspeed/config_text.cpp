#include "planner/deepspeed/config_text.h"

#include <algorithm>

namespace zeroplan::planner::deepspeed {

const MemberPlace* ConfigText::place_of(std::string_view path) const {
  while (!path.empty()) {
    const auto it = places.find(path);
    if (it != places.end()) return &it->second;
    const std::size_t dot = path.rfind('.');
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
  return nullptr;
}

bool ConfigText::strict_json_refuses() const {
  return std::any_of(remarks.begin(), remarks.end(),
                     [](const ReaderRemark& remark) { return remark.kind != RemarkKind::kDuplicateKey; });
}

}  // namespace zeroplan::planner::deepspeed
