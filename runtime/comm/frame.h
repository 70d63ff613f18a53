// Messages on a connection between processes: a kind, a length, so many bytes. Main types: FrameKind, Frame. Depends on
// socket.
#pragma once

#include <optional>
#include <string>

#include "runtime/comm/socket.h"

namespace zeroplan::runtime {

enum class FrameKind : std::uint8_t {
  kJoin = 1,  ///< a process presents itself: JSON
  kRoster,    ///< all have come: JSON
  kRefused,   ///< this process is not wanted: text
  kBeat,      ///< alive
  kBlob,      ///< one rank's part of a gathering
  kGathered,  ///< all ranks' parts, packed
  kError,     ///< a rank has failed and says why: JSON
  kFailed,    ///< some rank has failed, all end: JSON
  kBye,       ///< leaves in order
  kConnect,   ///< opens a connection for data: JSON
};

struct Frame {
  FrameKind kind = FrameKind::kBeat;
  std::string payload;
};

/// Longer ones are refused: nothing that processes tell each other comes near.
constexpr std::uint32_t kLongestFrame = std::uint32_t{64} << 20;

/// Appends a frame to bytes that will be sent.
void append_frame(std::string& out, FrameKind kind, std::string_view payload);
/// Takes the first frame off received bytes; nothing if it is not whole yet.
/// \throws Error{kCollective} for bytes that are no frame
std::optional<Frame> take_frame(std::string& in);

/// A whole frame before the deadline. \returns false, or nothing, for a closed, foreign or slow connection
bool send_frame(const Socket& socket, FrameKind kind, std::string_view payload, Deadline deadline);
std::optional<Frame> receive_frame(const Socket& socket, Deadline deadline);

}  // namespace zeroplan::runtime
