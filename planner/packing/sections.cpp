#include "planner/packing/sections.h"

#include <algorithm>

namespace zeroplan::planner {

Sections find_sections(std::span<const IntervalBuffer> buffers) {
  // A section stands before each end that follows a begin: there the most are live.
  std::vector<std::int64_t> begins;
  std::vector<std::int64_t> ends;
  for (const IntervalBuffer& b : buffers) {
    if (b.size == 0) continue;
    begins.push_back(b.first);
    ends.push_back(b.last);
  }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  std::vector<std::int64_t> marks;  // of each section: a time at which all of its buffers are live
  for (std::size_t next_begin = 0, next_end = 0; next_begin < begins.size();) {
    while (next_begin < begins.size() && begins[next_begin] < ends[next_end]) ++next_begin;
    marks.push_back(begins[next_begin - 1]);
    while (next_end < ends.size() && next_begin < begins.size() && ends[next_end] <= begins[next_begin]) ++next_end;
  }
  Sections result;
  result.count = static_cast<std::uint32_t>(marks.size());
  result.spans.resize(buffers.size());
  const auto at_or_after = [&](std::int64_t time) {
    return static_cast<std::uint32_t>(std::lower_bound(marks.begin(), marks.end(), time) - marks.begin());
  };
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size > 0) result.spans[i] = {at_or_after(buffers[i].first), at_or_after(buffers[i].last)};
  }
  return result;
}

}  // namespace zeroplan::planner
