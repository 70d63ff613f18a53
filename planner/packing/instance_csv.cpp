#include "planner/packing/instance_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>

#include <fmt/format.h>

#include "models/core/error.h"

namespace zeroplan::planner {
namespace {

constexpr std::array<std::string_view, 4> kColumns = {"id", "lower", "upper", "size"};
constexpr std::size_t kShownCharacters = 60;

std::string shown(std::string_view text) {
  return std::string(text.substr(0, kShownCharacters)) + (text.size() > kShownCharacters ? "..." : "");
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// Reads line by line and knows where it is.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file) : rest_(text), file_(file) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  /// The next line that is not blank, in fields. \returns whether there was one
  bool next(std::vector<std::string_view>& fields) {
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      std::string_view line = trimmed(rest_.substr(0, end));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++line_;
      if (line.empty()) continue;
      split(line, fields);
      return true;
    }
    return false;
  }

  Error error(std::string message, std::string_view key = {}, std::string_view value = {}) const {
    Error e(ErrorCode::kInvalidInput, std::move(message));
    e.at({.file = file_, .line = line_, .key = std::string(key), .value = shown(value)});
    return e;
  }

 private:
  void split(std::string_view line, std::vector<std::string_view>& fields) const {
    if (line.find('"') != std::string_view::npos)
      throw error("a quote was found, expected plain fields without quotes");
    fields.clear();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      fields.push_back(trimmed(line.substr(begin, end - begin)));
      begin = end + 1;
    }
  }

  std::string_view rest_;
  const std::string& file_;
  std::uint64_t line_ = 0;
};

std::int64_t read_number(const CsvReader& reader, std::string_view key, std::string_view field) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), number);
  if (status != std::errc() || end != field.data() + field.size() || number < 0) {
    throw reader.error(fmt::format("{} is '{}', expected a whole number from 0 to 2^63-1", key, shown(field)), key,
                       field);
  }
  return number;
}

/// Where each column stands in a row.
std::array<std::size_t, 4> read_header(CsvReader& reader, std::vector<std::string_view>& fields) {
  if (!reader.next(fields)) throw reader.error("the file is empty, expected a header line id,lower,upper,size");
  std::array<std::size_t, 4> places{};
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    const auto count = std::count(fields.begin(), fields.end(), kColumns[c]);
    if (count != 1) {
      throw reader.error(fmt::format("the header has {} columns named {}, expected one of each of id,lower,upper,size",
                                     count, kColumns[c]),
                         kColumns[c]);
    }
    places[c] = static_cast<std::size_t>(std::find(fields.begin(), fields.end(), kColumns[c]) - fields.begin());
  }
  return places;
}

}  // namespace

NamedInstance read_instance_csv(std::string_view text, const std::string& file) {
  CsvReader reader(text, file);
  std::vector<std::string_view> fields;
  const auto [id, lower, upper, size] = read_header(reader, fields);
  const std::size_t columns = fields.size();
  NamedInstance instance;
  std::unordered_set<std::string_view> known;
  while (reader.next(fields)) {
    if (fields.size() != columns)
      throw reader.error(fmt::format("the line has {} fields, expected {} as in the header", fields.size(), columns));
    if (fields[id].empty()) throw reader.error("id is empty, expected a name", "id");
    if (!known.insert(fields[id]).second)
      throw reader.error(fmt::format("id '{}' is there twice", shown(fields[id])), "id", fields[id]);
    IntervalBuffer buffer;
    buffer.first = read_number(reader, "lower", fields[lower]);
    buffer.last = read_number(reader, "upper", fields[upper]);
    buffer.size = static_cast<std::uint64_t>(read_number(reader, "size", fields[size]));
    if (buffer.first >= buffer.last) {
      throw reader.error(fmt::format("upper is {}, expected more than lower, which is {}", buffer.last, buffer.first),
                         "upper", fields[upper]);
    }
    instance.ids.emplace_back(fields[id]);
    instance.buffers.push_back(buffer);
  }
  return instance;
}

std::string write_packing_csv(const NamedInstance& instance, std::span<const std::uint64_t> offsets) {
  ZP_CHECK(offsets.size() == instance.buffers.size());
  std::string text = "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const IntervalBuffer& b = instance.buffers[i];
    text += fmt::format("{},{},{},{},{}\n", instance.ids[i], b.first, b.last, b.size, offsets[i]);
  }
  return text;
}

}  // namespace zeroplan::planner
