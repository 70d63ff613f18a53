#include "runtime/comm/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace zeroplan::runtime {
namespace {

/// Milliseconds until the deadline, at least 0, for poll.
int until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

/// \returns false once the deadline has passed
bool wait_for(int descriptor, short events, Deadline deadline) {
  while (true) {
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (SteadyClock::now() >= deadline) return false;
  }
}

void set_up(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Error cannot_listen(std::uint16_t port, int reason) {
  return Error(ErrorCode::kIo, fmt::format("cannot listen on port {}: {}", port, std::strerror(reason)))
      .hint("choose a port that no other program uses");
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

Socket connect_one(const addrinfo& address, Deadline deadline) {
  Socket socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
  if (!socket.is_open()) return {};
  set_up(socket.descriptor());
  if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS || !wait_for(socket.descriptor(), POLLOUT, deadline)) return {};
    int failure = 0;
    socklen_t size = sizeof(failure);
    ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) return {};
  }
  return socket;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Json Endpoint::to_json() const {
  return {{"host", host}, {"addresses", addresses}, {"port", port}};
}

Endpoint Endpoint::from_json(const JsonView& view) {
  Endpoint endpoint;
  endpoint.host = view.at("host").as_string();
  const JsonView list = view.at("addresses");
  for (std::size_t i = 0; i < list.array_size(); ++i) endpoint.addresses.push_back(list.at(i).as_string());
  const std::uint64_t port = view.at("port").as_count();
  if (port == 0 || port > 65535) throw view.at("port").unexpected("1 to 65535");
  endpoint.port = static_cast<std::uint16_t>(port);
  return endpoint;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::vector<std::string> host_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0)
      continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      found.emplace_back(text.data());
  }
  ::freeifaddrs(list);
  return found;
}

Listener::Listener(std::uint16_t port) {
  // One socket for both families; a host without IPv6 gets one for IPv4.
  const int on = 1;
  const int off = 0;
  socket_ = Socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  four.sin_port = htons(port);
  const sockaddr* address = reinterpret_cast<const sockaddr*>(&six);
  socklen_t size = sizeof(six);
  if (!socket_.is_open()) {
    socket_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket_.is_open()) throw cannot_listen(port, errno);
    address = reinterpret_cast<const sockaddr*>(&four);
    size = sizeof(four);
  } else {
    ::setsockopt(socket_.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  ::setsockopt(socket_.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  set_up(socket_.descriptor());
  if (::bind(socket_.descriptor(), address, size) != 0) throw cannot_listen(port, errno);
  if (::listen(socket_.descriptor(), SOMAXCONN) != 0) throw cannot_listen(port, errno);
  sockaddr_storage bound{};
  socklen_t bound_size = sizeof(bound);
  ::getsockname(socket_.descriptor(), reinterpret_cast<sockaddr*>(&bound), &bound_size);
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                            : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

Socket Listener::accept(Deadline deadline) const {
  while (wait_for(socket_.descriptor(), POLLIN, deadline)) {
    Socket accepted(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!accepted.is_open()) continue;
    set_up(accepted.descriptor());
    return accepted;
  }
  return {};
}

Socket connect_to(const std::string& host, std::uint16_t port, Deadline deadline) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    Socket socket = connect_one(*address, deadline);
    if (socket.is_open()) return socket;
  }
  return {};
}

bool send_all(const Socket& socket, std::span<const std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t n = ::send(socket.descriptor(), data.data(), data.size(), MSG_NOSIGNAL);
    if (n > 0) {
      data = data.subspan(static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK) ||
               !wait_for(socket.descriptor(), POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool receive_all(const Socket& socket, std::span<std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t n = ::recv(socket.descriptor(), data.data(), data.size(), 0);
    if (n > 0) {
      data = data.subspan(static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK) ||
               !wait_for(socket.descriptor(), POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

}  // namespace zeroplan::runtime
