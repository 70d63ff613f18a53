#include "models/core/error.h"

#include <fmt/format.h>

namespace zeroplan {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kInvalidInput:
      return "invalid_input";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kDoesNotFit:
      return "does_not_fit";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kCollective:
      return "collective";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kOverflow:
      return "overflow";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

Error& Error::at(const ErrorPlace& place) {
  if (place_.file.empty()) place_.file = place.file;
  if (!place_.line) place_.line = place.line;
  if (!place_.column) place_.column = place.column;
  if (place_.key.empty()) place_.key = place.key;
  if (place_.value.empty()) place_.value = place.value;
  return *this;
}

Error& Error::hint(std::string text) {
  if (hint_.empty()) hint_ = std::move(text);
  return *this;
}

Error& Error::with(std::string_view context) {
  message_ = fmt::format("{}: {}", context, message_);
  return *this;
}

namespace detail {
void check_failed(const char* condition, const char* file, int line) {
  const std::string_view path(file);
  const auto slash = path.rfind('/');
  const auto name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  throw Error(ErrorCode::kInternal, fmt::format("{}:{}: {} does not hold", name, line, condition))
      .hint("this is a fault of zeroplan; please report it with the command line");
}
}  // namespace detail

}  // namespace zeroplan
