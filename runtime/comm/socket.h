// TCP sockets with deadlines. Purpose: the little that processes of one run need to find each other and to exchange
// bytes. Main types: Socket, Endpoint, Listener. Depends on models/core only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/core/json.h"

namespace zeroplan::runtime {

using SteadyClock = std::chrono::steady_clock;
using Deadline = SteadyClock::time_point;

/// An open descriptor; closed at the end. Move-only.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();
  /// Leaves the descriptor open until the process ends.
  void release() { descriptor_ = -1; }

 private:
  int descriptor_ = -1;
};

/// Where a process listens: its host's name and all addresses of that host.
struct Endpoint {
  std::string host;
  std::vector<std::string> addresses;  ///< numeric, none of the loopback
  std::uint16_t port = 0;

  Json to_json() const;
  /// \throws Error{kInvalidInput}
  static Endpoint from_json(const JsonView& view);
};

/// This host's name, and the numeric addresses of its interfaces.
std::string host_name();
std::vector<std::string> host_addresses();

/// A socket on which others are awaited.
class Listener {
 public:
  /// On all addresses of this host. \param port  0: any free one. \throws Error{kIo}
  explicit Listener(std::uint16_t port);

  std::uint16_t port() const { return port_; }
  /// Waits for the next one. \returns a closed socket once the deadline has passed
  Socket accept(Deadline deadline) const;

 private:
  Socket socket_;
  std::uint16_t port_ = 0;
};

/// One attempt at one address, numeric or a name. \returns a closed socket if nobody answers there in time
Socket connect_to(const std::string& host, std::uint16_t port, Deadline deadline);

/// All or nothing, before the deadline. Sockets are non-blocking; so are the calls until then.
/// \returns false for a closed connection or one that is too slow
bool send_all(const Socket& socket, std::span<const std::byte> data, Deadline deadline);
bool receive_all(const Socket& socket, std::span<std::byte> data, Deadline deadline);

}  // namespace zeroplan::runtime
