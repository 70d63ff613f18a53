#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "models/core/json.h"
#include "models/safetensors.h"

namespace zeroplan::models {
namespace {

struct TypeRow {
  std::string_view name;
  std::uint64_t bits;
  std::optional<DType> type;
};

constexpr std::array kTypes = {
    TypeRow{"F64", 64, DType::kFp64},        TypeRow{"F32", 32, DType::kFp32},
    TypeRow{"F16", 16, DType::kFp16},        TypeRow{"BF16", 16, DType::kBf16},
    TypeRow{"I64", 64, DType::kInt64},       TypeRow{"I32", 32, DType::kInt32},
    TypeRow{"I8", 8, DType::kInt8},          TypeRow{"U8", 8, DType::kUint8},
    TypeRow{"BOOL", 8, DType::kBool},        TypeRow{"I16", 16, std::nullopt},
    TypeRow{"U16", 16, std::nullopt},        TypeRow{"U32", 32, std::nullopt},
    TypeRow{"U64", 64, std::nullopt},        TypeRow{"F8_E4M3", 8, std::nullopt},
    TypeRow{"F8_E5M2", 8, std::nullopt},     TypeRow{"F8_E8M0", 8, std::nullopt},
    TypeRow{"F8_E4M3FNUZ", 8, std::nullopt}, TypeRow{"F8_E5M2FNUZ", 8, std::nullopt},
    TypeRow{"F6_E2M3", 6, std::nullopt},     TypeRow{"F6_E3M2", 6, std::nullopt},
    TypeRow{"F4", 4, std::nullopt},          TypeRow{"C64", 64, std::nullopt},
};

const TypeRow* find_type(std::string_view name) {
  const auto it = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& row) { return row.name == name; });
  return it == kTypes.end() ? nullptr : &*it;
}

constexpr std::string_view kDownloadHint = "the file is damaged; download or write it again";
constexpr std::size_t kMostRank = 32;

/// Sees the keys of the outermost object as they come, before a parser merges equal ones. Keeps no value, so that its
/// cost grows with the text only.
class UniqueNames : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit UniqueNames(const std::string& file) : file_(file) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

  bool key(string_t& name) override {
    if (depth_ == 1 && !names_.insert(name).second) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{}: the header names {} twice", file_, name))
          .at({.file = file_, .key = name})
          .hint(std::string(kDownloadHint));
    }
    return true;
  }

 private:
  bool enter() {
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::string& file_;
  std::set<std::string> names_;
  int depth_ = 0;
};

/// The keys of the outermost object, which a parser would silently merge. The text is known to be JSON.
void require_unique_names(std::string_view text, const std::string& file) {
  UniqueNames names(file);
  nlohmann::json::sax_parse(text, &names);
}

/// A copy in the type that JsonView reads; for objects of a few keys.
Json small_object(const nlohmann::json& value, const std::string& file, const std::string& name) {
  constexpr std::size_t kMostKeys = 16;
  if (!value.is_object() || value.size() > kMostKeys) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: {} is no object of dtype, shape and data_offsets", file, name))
        .at({.file = file, .key = name});
  }
  return Json(value);
}

TensorEntry parse_entry(const std::string& name, const JsonView& view, std::uint64_t data_start,
                        std::uint64_t data_size) {
  TensorEntry entry;
  entry.name = name;
  entry.dtype_name = view.at("dtype").as_string();
  const TypeRow* type = find_type(entry.dtype_name);
  if (type == nullptr) throw view.at("dtype").unexpected("a type of the safetensors format, such as F32 or BF16");
  entry.dtype = type->type;

  const JsonView shape = view.at("shape");
  if (shape.array_size() > kMostRank) throw shape.unexpected(fmt::format("at most {} extents", kMostRank));
  std::vector<std::uint64_t> extents;
  for (std::size_t i = 0; i < shape.array_size(); ++i) extents.push_back(shape.at(i).as_count());
  entry.shape = Shape(std::move(extents));
  std::uint64_t bits = 0;
  try {
    bits = zeroplan::detail::checked_mul(entry.shape.elements().count(), type->bits);
  } catch (const Error&) {
    throw shape.unexpected("extents whose product fits 64 bits");
  }

  const JsonView offsets = view.at("data_offsets");
  if (offsets.array_size() != 2) throw offsets.unexpected("[begin, end]");
  const std::uint64_t begin = offsets.at(std::size_t{0}).as_count();
  const std::uint64_t end = offsets.at(std::size_t{1}).as_count();
  if (begin > end || end > data_size) {
    throw offsets.unexpected(fmt::format("begin <= end <= {}, the bytes of data in the file", data_size));
  }
  if (bits % 8 != 0 || bits / 8 != end - begin) {
    throw offsets.unexpected(
        fmt::format("{} bytes for shape {} of {}", bits / 8, to_string(entry.shape), entry.dtype_name));
  }
  entry.offset = Bytes(data_start + begin);
  entry.size = Bytes(end - begin);
  return entry;
}

void read_metadata(const nlohmann::json& object, const std::string& file,
                   std::map<std::string, std::string>& metadata) {
  const auto fail = [&](const std::string& key) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} is no text, expected texts only", file, key))
        .at({.file = file, .key = key});
  };
  if (!object.is_object()) fail("__metadata__");
  for (const auto& [key, word] : object.items()) {
    if (!word.is_string()) fail("__metadata__." + key);
    metadata[key] = word.get<std::string>();
  }
}

/// Sorts by position; neighbours must touch, the last ends with the file.
void require_cover(std::vector<TensorEntry>& tensors, std::uint64_t data_start, std::uint64_t file_size,
                   const std::string& file) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.size < b.size;
  });
  std::uint64_t position = data_start;
  const auto fail = [&](const std::string& name, std::string_view what) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} {}", file, name, what))
        .at({.file = file, .key = name + ".data_offsets"})
        .hint(std::string(kDownloadHint));
  };
  for (const TensorEntry& tensor : tensors) {
    if (tensor.offset.count() < position) fail(tensor.name, "overlaps the tensor in front of it");
    if (tensor.offset.count() > position) fail(tensor.name, "leaves bytes in front of it that belong to no tensor");
    position += tensor.size.count();
  }
  if (position != file_size) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} has {} bytes, expected {}: the end of its last tensor", file, file_size, position))
        .at({.file = file})
        .hint(std::string(kDownloadHint));
  }
}

}  // namespace

std::string_view safetensors_name(DType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  return type == DType::kFp8 ? "F8_E4M3" : "";
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  const TypeRow* row = find_type(name);
  return row == nullptr ? std::nullopt : row->type;
}

std::uint64_t safetensors_bits(std::string_view name) {
  const TypeRow* row = find_type(name);
  return row == nullptr ? 0 : row->bits;
}

namespace detail {

std::vector<TensorEntry> parse_safetensors_header(std::string_view text, std::uint64_t file_size,
                                                  const std::string& file,
                                                  std::map<std::string, std::string>& metadata) {
  const std::uint64_t data_start = detail::kHeaderLengthBytes + text.size();
  if (file_size < data_start) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} has {} bytes, expected at least {} for its header", file, file_size, data_start))
        .at({.file = file})
        .hint(std::string(kDownloadHint));
  }
  std::vector<TensorEntry> tensors;
  try {
    const nlohmann::json document = parse_large_json(text, file, {.most_bytes = kMostHeaderBytes, .most_depth = 4});
    if (!document.is_object()) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{}: the header is no JSON object", file)).at({.file = file});
    }
    require_unique_names(text, file);
    for (const auto& [name, value] : document.items()) {
      if (name == "__metadata__") {
        read_metadata(value, file, metadata);
      } else {
        const Json entry = small_object(value, file, name);
        tensors.push_back(parse_entry(name, JsonView(entry, file, name), data_start, file_size - data_start));
      }
    }
  } catch (Error& error) {
    error.hint(std::string(kDownloadHint));
    throw;
  }
  require_cover(tensors, data_start, file_size, file);
  return tensors;
}

}  // namespace detail

}  // namespace zeroplan::models
