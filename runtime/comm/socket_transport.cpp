#include "runtime/comm/socket_transport.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "runtime/comm/backoff.h"

namespace zeroplan::runtime {
namespace {

/// How often a waiting exchange looks whether a peer failed.
constexpr int kLookAroundMs = 50;

bool would_block(int number) {
  return number == EAGAIN || number == EWOULDBLOCK || number == EINTR;
}

class SocketTransport final : public Transport {
 public:
  explicit SocketTransport(std::uint64_t size) {
    for (Line& line : lines_) {
      line.sockets.resize(size);
      line.transfers.reserve(2 * size);
      line.polled.reserve(2 * size);
    }
  }

  Socket& socket(Channel channel, std::uint64_t peer) {
    return lines_[static_cast<std::size_t>(channel)].sockets.at(peer);
  }

  void exchange(Channel channel, std::span<const Message> sends, std::span<const Message> receives,
                const StopSignal& stop) override {
    Line& line = lines_[static_cast<std::size_t>(channel)];
    ZP_CHECK(sends.size() + receives.size() <= line.transfers.capacity());
    line.transfers.clear();
    for (const Message& m : sends) line.transfers.push_back({m, 0, true});
    for (const Message& m : receives) line.transfers.push_back({m, 0, false});
    while (true) {
      bool is_done = true;
      bool moved = false;
      for (Transfer& transfer : line.transfers) {
        moved = move(line.sockets[transfer.message.peer], transfer, stop) || moved;
        is_done = is_done && transfer.done == transfer.message.bytes;
      }
      if (is_done) return;
      stop.check();
      if (!moved) wait(line);
    }
  }

 private:
  struct Transfer {
    Message message;
    std::size_t done = 0;
    bool sends = false;
  };
  /// A channel. Its vectors have room for an exchange from the start.
  struct Line {
    std::vector<Socket> sockets;  ///< by peer
    std::vector<Transfer> transfers;
    std::vector<pollfd> polled;
  };

  /// \returns whether any byte moved
  static bool move(const Socket& socket, Transfer& transfer, const StopSignal& stop) {
    bool moved = false;
    while (transfer.done < transfer.message.bytes) {
      std::byte* data = transfer.message.data + transfer.done;
      const std::size_t left = transfer.message.bytes - transfer.done;
      const ssize_t n = transfer.sends ? ::send(socket.descriptor(), data, left, MSG_NOSIGNAL)
                                       : ::recv(socket.descriptor(), data, left, 0);
      if (n < 0 && would_block(errno)) return moved;
      if (n <= 0) fail(transfer.message.peer, n == 0 ? ECONNRESET : errno, stop);
      transfer.done += static_cast<std::size_t>(n);
      moved = true;
    }
    return moved;
  }

  static void wait(Line& line) {
    line.polled.clear();
    for (const Transfer& transfer : line.transfers) {
      if (transfer.done == transfer.message.bytes) continue;
      line.polled.push_back(
          {line.sockets[transfer.message.peer].descriptor(), static_cast<short>(transfer.sends ? POLLOUT : POLLIN), 0});
    }
    ::poll(line.polled.data(), line.polled.size(), kLookAroundMs);
  }

  [[noreturn]] static void fail(std::uint64_t peer, int number, const StopSignal& stop) {
    // A peer that died is named by whoever watches the peers, with its host and process.
    wait_for_stop(stop);
    throw Error(ErrorCode::kCollective,
                fmt::format("the connection with rank {} broke: {}", peer, std::strerror(number)));
  }

  std::array<Line, kChannels> lines_;
};

/// Who opens a connection, and for what.
std::string greeting(const Meeting& meeting, std::size_t channel) {
  return Json{{"key", meeting.key}, {"rank", meeting.rank}, {"channel", channel}}.dump();
}

Error unreachable(const Meeting& meeting, std::uint64_t peer) {
  return Error(ErrorCode::kCollective,
               fmt::format("rank {} has no connection with {}", meeting.rank, meeting.members[peer].describe(peer)))
      .hint("let no firewall stand between the hosts");
}

/// Takes one connection of a higher rank. \returns whether it was one
bool take_connection(const Meeting& meeting, Socket accepted, SocketTransport& transport) {
  const auto frame = receive_frame(accepted, SteadyClock::now() + std::chrono::seconds(2));
  if (!frame || frame->kind != FrameKind::kConnect) return false;
  try {
    const Json document = parse_json(frame->payload, "a greeting");
    const JsonView view(document, "a greeting");
    const std::uint64_t peer = view.at("rank").as_count();
    const std::uint64_t channel = view.at("channel").as_count();
    if (view.at("key").as_string() != meeting.key || peer <= meeting.rank || peer >= meeting.size()) return false;
    if (channel >= kChannels) return false;
    Socket& socket = transport.socket(static_cast<Channel>(channel), peer);
    if (socket.is_open()) return false;
    socket = std::move(accepted);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::unique_ptr<Transport> make_socket_transport(const Meeting& meeting, std::chrono::seconds timeout) {
  const Deadline deadline = SteadyClock::now() + timeout;
  auto transport = std::make_unique<SocketTransport>(meeting.size());
  for (std::uint64_t peer = 0; peer < meeting.rank; ++peer) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      Socket socket = connect_to(meeting.members[peer].endpoint, deadline);
      if (!socket.is_open() || !send_frame(socket, FrameKind::kConnect, greeting(meeting, channel), deadline))
        throw unreachable(meeting, peer);
      transport->socket(static_cast<Channel>(channel), peer) = std::move(socket);
    }
  }
  for (std::uint64_t open = (meeting.size() - 1 - meeting.rank) * kChannels; open > 0;) {
    Socket accepted = meeting.data->accept(deadline);
    if (!accepted.is_open()) {
      for (std::uint64_t peer = meeting.rank + 1; peer < meeting.size(); ++peer) {
        for (std::size_t channel = 0; channel < kChannels; ++channel) {
          if (!transport->socket(static_cast<Channel>(channel), peer).is_open()) throw unreachable(meeting, peer);
        }
      }
    }
    if (take_connection(meeting, std::move(accepted), *transport)) --open;
  }
  return transport;
}

}  // namespace zeroplan::runtime
