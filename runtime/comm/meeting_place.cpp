#include "runtime/comm/meeting_place.h"

#include <random>

#include <fmt/format.h>

#include "models/core/file_io.h"

namespace zeroplan::runtime {
namespace {

/// Ports after the one that torchrun's own store uses.
constexpr std::uint16_t kNextPorts = 16;

std::string random_key() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

Endpoint own_endpoint(std::uint16_t port) {
  return {host_name(), host_addresses(), port};
}

/// kMpi: rank 0's place and key come by a broadcast.
class MpiPlace final : public MeetingPlace {
 public:
  explicit MpiPlace(MpiSession& mpi) : mpi_(mpi) {}
  std::uint64_t rank() const override { return mpi_.rank(); }
  std::string key() const override { return key_; }
  Listener announce() override {
    Listener listener(0);
    key_ = random_key();
    mpi_.broadcast(Json{{"key", key_}, {"endpoint", own_endpoint(listener.port()).to_json()}}.dump());
    return listener;
  }
  std::vector<Place> look_up() override {
    if (!endpoint_) {
      const Json document = parse_json(mpi_.broadcast(""), "MPI's broadcast");
      const JsonView view(document, "MPI's broadcast");
      key_ = view.at("key").as_string();
      endpoint_ = Endpoint::from_json(view.at("endpoint"));
    }
    return places_of(*endpoint_);
  }

 private:
  MpiSession& mpi_;
  std::string key_;
  std::optional<Endpoint> endpoint_;
};

/// kEnvironment and kTcp: the address is known to all.
class FixedPlace final : public MeetingPlace {
 public:
  explicit FixedPlace(const RendezvousSettings& settings) : settings_(settings) {}
  std::uint64_t rank() const override { return settings_.rank.value(); }
  std::string key() const override { return settings_.key; }
  Listener announce() override {
    for (std::size_t i = 0;; ++i) {
      try {
        return Listener(places().at(i).port);
      } catch (const Error&) {
        if (i + 1 == places().size()) throw;
      }
    }
  }
  std::vector<Place> look_up() override { return places(); }

 private:
  std::vector<Place> places() const {
    if (!settings_.is_port_taken) return {{settings_.host, settings_.port}};
    std::vector<Place> found;
    for (std::uint16_t i = 1; i <= kNextPorts && settings_.port + i <= 65535; ++i)
      found.push_back({settings_.host, static_cast<std::uint16_t>(settings_.port + i)});
    return found;
  }

  const RendezvousSettings& settings_;
};

/// kFile: rank 0 writes the file, others read it until it is there.
class FilePlace final : public MeetingPlace {
 public:
  explicit FilePlace(const RendezvousSettings& settings) : settings_(settings) {}
  std::uint64_t rank() const override { return settings_.rank.value(); }
  std::string key() const override { return key_; }
  Listener announce() override {
    Listener listener(0);
    key_ = random_key();
    write_file_atomically(settings_.path,
                          Json{{"key", key_}, {"endpoint", own_endpoint(listener.port()).to_json()}}.dump() + "\n");
    return listener;
  }
  std::vector<Place> look_up() override {
    std::error_code ignored;
    if (!std::filesystem::exists(settings_.path, ignored)) return {};
    const Json document = parse_json(read_file(settings_.path, Bytes(1 << 20)), settings_.path);
    const JsonView view(document, settings_.path);
    key_ = view.at("key").as_string();
    return places_of(Endpoint::from_json(view.at("endpoint")));
  }
  void close() override {
    std::error_code ignored;
    std::filesystem::remove(settings_.path, ignored);
  }

 private:
  const RendezvousSettings& settings_;
  std::string key_;
};

}  // namespace

std::vector<Place> places_of(const Endpoint& endpoint) {
  std::vector<Place> places;
  if (endpoint.host == host_name()) places.push_back({"127.0.0.1", endpoint.port});
  for (const std::string& address : endpoint.addresses) places.push_back({address, endpoint.port});
  places.push_back({endpoint.host, endpoint.port});
  return places;
}

std::unique_ptr<MeetingPlace> make_meeting_place(const RendezvousSettings& settings, MpiSession* mpi) {
  switch (settings.kind) {
    case RendezvousKind::kMpi:
      ZP_CHECK(mpi != nullptr);
      return std::make_unique<MpiPlace>(*mpi);
    case RendezvousKind::kEnvironment:
    case RendezvousKind::kTcp:
      return std::make_unique<FixedPlace>(settings);
    case RendezvousKind::kFile:
      return std::make_unique<FilePlace>(settings);
  }
  throw Error(ErrorCode::kInternal, "unknown kind of rendezvous");
}

}  // namespace zeroplan::runtime
