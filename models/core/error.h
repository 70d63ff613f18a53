// The one exception type of the project. Purpose: say who must act (the code), what was found and expected (the
// message), where (file, key, value), and what to do next (the hint). Main types: ErrorCode, ErrorPlace, Error. Depends
// on nothing.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace zeroplan {

/// Who must act. The texts of `to_string` are part of the command line's contract.
enum class ErrorCode {
  kUsage,         ///< a flag or argument: the caller of the program
  kInvalidInput,  ///< a file's content
  kUnsupported,   ///< right, but nothing here can do it
  kDoesNotFit,    ///< a tier is too small
  kDevice,        ///< an accelerator or its driver
  kCollective,    ///< a peer rank
  kIo,            ///< the operating system refused
  kOverflow,      ///< a size beyond 64 bits
  kInternal,      ///< a fault of zeroplan
};

/// "usage", "invalid_input", ...
std::string_view to_string(ErrorCode code);

/// Where an error was found; every part may be unknown.
struct ErrorPlace {
  std::string file = {};
  std::optional<std::uint64_t> line = std::nullopt;
  std::optional<std::uint64_t> column = std::nullopt;
  std::string key = {};
  std::string value = {};

  bool empty() const { return file.empty() && key.empty() && value.empty() && !line && !column; }
};

/// What is thrown everywhere. Built up while it travels: `throw Error(kIo, "...").at({...}).hint("...")`.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  /// Adds the place; a part that is already known stays.
  Error& at(const ErrorPlace& place);
  /// Adds what to do next, unless something deeper said it already.
  Error& hint(std::string text);
  /// Adds context in front: "while planning gpt2: ...".
  Error& with(std::string_view context);

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  const ErrorPlace& place() const { return place_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  std::string hint_;
  ErrorPlace place_;
};

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace detail

}  // namespace zeroplan

/// An invariant of the program itself: on in every build; throws Error{kInternal} with the condition and its place.
#define ZP_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::zeroplan::detail::check_failed(#condition, __FILE__, __LINE__))
