#include "runtime/comm/frame.h"

#include <array>

namespace zeroplan::runtime {
namespace {

/// Kind, then the length with its lowest byte first.
constexpr std::size_t kHeader = 5;

std::optional<std::uint32_t> length_of(std::string_view header) {
  const auto kind = static_cast<std::uint8_t>(header[0]);
  if (kind < static_cast<std::uint8_t>(FrameKind::kJoin) || kind > static_cast<std::uint8_t>(FrameKind::kConnect))
    return std::nullopt;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < 4; ++i)
    length |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(header[1 + i])) << (8 * i);
  return length <= kLongestFrame ? std::optional(length) : std::nullopt;
}

}  // namespace

void append_frame(std::string& out, FrameKind kind, std::string_view payload) {
  ZP_CHECK(payload.size() <= kLongestFrame);
  out.push_back(static_cast<char>(kind));
  for (std::size_t i = 0; i < 4; ++i) out.push_back(static_cast<char>((payload.size() >> (8 * i)) & 0xff));
  out.append(payload);
}

std::optional<Frame> take_frame(std::string& in) {
  if (in.size() < kHeader) return std::nullopt;
  const auto length = length_of(in);
  if (!length) throw Error(ErrorCode::kCollective, "a connection carries bytes that are no message of zeroplan");
  if (in.size() < kHeader + *length) return std::nullopt;
  Frame frame{static_cast<FrameKind>(in[0]), in.substr(kHeader, *length)};
  in.erase(0, kHeader + *length);
  return frame;
}

bool send_frame(const Socket& socket, FrameKind kind, std::string_view payload, Deadline deadline) {
  std::string bytes;
  append_frame(bytes, kind, payload);
  return send_all(socket, std::as_bytes(std::span(bytes)), deadline);
}

std::optional<Frame> receive_frame(const Socket& socket, Deadline deadline) {
  std::array<char, kHeader> header{};
  if (!receive_all(socket, std::as_writable_bytes(std::span(header)), deadline)) return std::nullopt;
  const auto length = length_of({header.data(), header.size()});
  // Before both sides know each other nothing long is said.
  if (!length || *length > (std::uint32_t{1} << 24)) return std::nullopt;
  Frame frame{static_cast<FrameKind>(header[0]), std::string(*length, '\0')};
  if (!receive_all(socket, std::as_writable_bytes(std::span(frame.payload)), deadline)) return std::nullopt;
  return frame;
}

}  // namespace zeroplan::runtime
