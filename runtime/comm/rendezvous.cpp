#include "runtime/comm/rendezvous.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "models/core/text.h"
#include "runtime/comm/meeting_place.h"

namespace zeroplan::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// For one attempt at an address, and for one newcomer to say who it is.
constexpr seconds kOneAttempt{2};
constexpr milliseconds kBetweenAttempts{50};

Error wrong_rendezvous(const std::string& flag, const std::string& value, const std::string& expected) {
  return Error(ErrorCode::kUsage, fmt::format("{} {}: expected {}", flag, value, expected))
      .at({.key = flag, .value = value});
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::string needed_variable(const char* name) {
  if (const auto value = variable(name)) return *value;
  throw Error(ErrorCode::kUsage, fmt::format("--rendezvous env: the variable {} is not set", name))
      .at({.key = name})
      .hint("torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; or use --rendezvous mpi, file or tcp");
}

std::uint16_t parse_port(const std::string& text, const std::string& flag) {
  const std::uint64_t port = parse_count(text, flag);
  if (port == 0 || port > 65535) throw wrong_rendezvous(flag, text, "a port, 1 to 65535");
  return static_cast<std::uint16_t>(port);
}

void read_environment(RendezvousSettings& settings) {
  settings.kind = RendezvousKind::kEnvironment;
  settings.host = needed_variable("MASTER_ADDR");
  settings.port = parse_port(needed_variable("MASTER_PORT"), "MASTER_PORT");
  const std::string size = needed_variable("WORLD_SIZE");
  if (parse_count(size, "WORLD_SIZE") != settings.size) {
    throw wrong_rendezvous("WORLD_SIZE", size, fmt::format("{}, the plan's gpus", settings.size));
  }
  if (!settings.rank) settings.rank = parse_count(needed_variable("RANK"), "RANK");
  settings.is_port_taken = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  settings.key = variable("TORCHELASTIC_RUN_ID").value_or("");
}

void read_address(RendezvousSettings& settings, const std::string& address) {
  settings.kind = RendezvousKind::kTcp;
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) throw wrong_rendezvous("--rendezvous", settings.text, "tcp:HOST:PORT");
  settings.host = address.substr(0, colon);
  if (settings.host.front() == '[' && settings.host.back() == ']')
    settings.host = settings.host.substr(1, settings.host.size() - 2);
  settings.port = parse_port(address.substr(colon + 1), "--rendezvous");
}

Json members_json(const std::vector<Member>& members) {
  Json list = Json::array();
  for (const Member& member : members)
    list.push_back({{"endpoint", member.endpoint.to_json()}, {"process", member.process}});
  return {{"members", std::move(list)}};
}

Member member_from(const JsonView& view) {
  return {Endpoint::from_json(view.at("endpoint")), view.at("process").as_count()};
}

/// A process that wants to join.
struct Newcomer {
  std::string key;
  std::uint64_t rank = 0;
  std::uint64_t size = 0;
  Member member;

  Json to_json() const {
    return {
        {"program", "zeroplan"},    {"key", key}, {"rank", rank}, {"size", size}, {"member", member.endpoint.to_json()},
        {"process", member.process}};
  }
  static Newcomer from_json(const JsonView& view) {
    return {view.at("key").as_string(),
            view.at("rank").as_count(),
            view.at("size").as_count(),
            {Endpoint::from_json(view.at("member")), view.at("process").as_count()}};
  }
};

/// Rank 0 gathers the others.
class Host {
 public:
  Host(const RendezvousSettings& settings, MeetingPlace& place, Meeting& meeting)
      : settings_(settings), place_(place), meeting_(meeting) {}

  void run(Deadline deadline) {
    const Listener listener = place_.announce();
    meeting_.key = place_.key();
    meeting_.connections.resize(settings_.size);
    while (missing() > 0) {
      Socket socket = listener.accept(std::min(deadline, SteadyClock::now() + seconds(1)));
      if (socket.is_open()) {
        receive(std::move(socket));
      } else if (SteadyClock::now() >= deadline) {
        give_up();
      }
    }
    const std::string roster = members_json(meeting_.members).dump();
    for (std::uint64_t r = 1; r < settings_.size; ++r) {
      if (!send_frame(meeting_.connections[r], FrameKind::kRoster, roster, SteadyClock::now() + kOneAttempt)) {
        throw Error(ErrorCode::kCollective,
                    fmt::format("{} ended before the run began", meeting_.members[r].describe(r)));
      }
    }
    place_.close();
  }

 private:
  std::uint64_t missing() const { return settings_.size - 1 - come_.size(); }

  void receive(Socket socket) {
    const Deadline soon = SteadyClock::now() + kOneAttempt;
    const auto frame = receive_frame(socket, soon);
    if (!frame || frame->kind != FrameKind::kJoin) return;  // not one of ours
    Newcomer newcomer;
    try {
      const Json document = parse_json(frame->payload, "a message of a joining process");
      newcomer = Newcomer::from_json(JsonView(document, "a message of a joining process"));
    } catch (const Error&) {
      return;
    }
    const auto refuse = [&](bool is_final, const std::string& why) {
      send_frame(socket, FrameKind::kRefused, Json{{"final", is_final}, {"why", why}}.dump(), soon);
    };
    const std::string who = newcomer.member.describe(newcomer.rank);
    if (newcomer.key != meeting_.key) return refuse(false, "another run meets here");
    if (newcomer.size != settings_.size) {
      const std::string why =
          fmt::format("{} has a plan of {} ranks, rank 0 one of {}", who, newcomer.size, settings_.size);
      refuse(true, why);
      throw Error(ErrorCode::kUsage, why).hint("start all processes with the same plan");
    }
    if (newcomer.rank == 0 || newcomer.rank >= settings_.size || come_.contains(newcomer.rank)) {
      const std::string why = newcomer.rank == 0 || come_.contains(newcomer.rank)
                                  ? fmt::format("{} and {} claim the same rank", who,
                                                meeting_.members[newcomer.rank].describe(newcomer.rank))
                                  : fmt::format("{} is beyond the {} ranks of the plan", who, settings_.size);
      refuse(true, why);
      throw Error(ErrorCode::kUsage, why).hint("give each process its own rank, from 0 to the number of ranks - 1");
    }
    if (!send_frame(socket, FrameKind::kBeat, "", soon)) return;
    come_.insert(newcomer.rank);
    meeting_.members[newcomer.rank] = newcomer.member;
    meeting_.connections[newcomer.rank] = std::move(socket);
  }

  [[noreturn]] void give_up() {
    std::vector<std::uint64_t> absent;
    for (std::uint64_t r = 1; r < settings_.size; ++r) {
      if (!come_.contains(r)) absent.push_back(r);
    }
    const std::string why =
        fmt::format("--rendezvous {}: rank{} {} did not come within {} s", settings_.text,
                    absent.size() == 1 ? "" : "s", fmt::join(absent, ", "), settings_.timeout.count());
    for (const std::uint64_t r : come_) {
      send_frame(meeting_.connections[r], FrameKind::kRefused, Json{{"final", true}, {"why", why}}.dump(),
                 SteadyClock::now() + kOneAttempt);
    }
    place_.close();
    throw Error(ErrorCode::kCollective, why).hint("start all ranks, and let no firewall keep them from rank 0's host");
  }

  const RendezvousSettings& settings_;
  MeetingPlace& place_;
  Meeting& meeting_;
  std::set<std::uint64_t> come_;
};

/// The others look for rank 0.
class Guest {
 public:
  Guest(const RendezvousSettings& settings, MeetingPlace& place, Meeting& meeting)
      : settings_(settings), place_(place), meeting_(meeting) {}

  void run(Deadline deadline) {
    while (true) {
      for (const Place& place : place_.look_up()) {
        const Deadline soon = std::min(deadline, SteadyClock::now() + kOneAttempt);
        Socket socket = connect_to(place.host, place.port, soon);
        if (socket.is_open() && join(std::move(socket), deadline)) return;
      }
      if (SteadyClock::now() >= deadline) {
        throw Error(ErrorCode::kCollective,
                    fmt::format("--rendezvous {}: rank {} did not find rank 0 within {} s{}", settings_.text,
                                meeting_.rank, settings_.timeout.count(), refusal_.empty() ? "" : ": " + refusal_))
            .hint("start rank 0 too, and let no firewall keep the others from its host");
      }
      std::this_thread::sleep_for(kBetweenAttempts);
    }
  }

 private:
  /// \returns false if somebody else answers there
  bool join(Socket socket, Deadline deadline) {
    meeting_.key = place_.key();
    const Newcomer self{meeting_.key, meeting_.rank, settings_.size, meeting_.members[meeting_.rank]};
    const Deadline soon = std::min(deadline, SteadyClock::now() + 5 * kOneAttempt);
    if (!send_frame(socket, FrameKind::kJoin, self.to_json().dump(), soon)) return false;
    const auto welcome = receive_frame(socket, soon);
    if (!welcome) return false;
    if (welcome->kind == FrameKind::kRefused) return refused(welcome->payload);
    if (welcome->kind != FrameKind::kBeat) return false;
    // Rank 0 itself says when it gives up; its word needs a moment to come.
    const auto roster = receive_frame(socket, deadline + 5 * kOneAttempt);
    if (!roster) throw Error(ErrorCode::kCollective, "rank 0 ended before the run began");
    if (roster->kind == FrameKind::kRefused) return refused(roster->payload);
    const Json document = parse_json(roster->payload, "rank 0's list of members");
    const JsonView list = JsonView(document, "rank 0's list of members").at("members");
    if (list.array_size() != settings_.size) throw list.unexpected(fmt::format("{} members", settings_.size));
    for (std::size_t r = 0; r < settings_.size; ++r) meeting_.members[r] = member_from(list.at(r));
    meeting_.connections.push_back(std::move(socket));
    return true;
  }

  bool refused(const std::string& payload) {
    const Json document = parse_json(payload, "rank 0's answer");
    const JsonView view(document, "rank 0's answer");
    refusal_ = view.at("why").as_string();
    if (view.at("final").as_bool()) throw Error(ErrorCode::kCollective, refusal_);
    return false;
  }

  const RendezvousSettings& settings_;
  MeetingPlace& place_;
  Meeting& meeting_;
  std::string refusal_;
};

}  // namespace

std::string Member::describe(std::uint64_t rank) const {
  return fmt::format("rank {} (host {}, process {})", rank, endpoint.host, process);
}

RendezvousSettings parse_rendezvous(const std::string& text, std::optional<std::uint64_t> rank, std::uint64_t size) {
  RendezvousSettings settings;
  settings.text = text;
  settings.size = size;
  settings.rank = rank;
  if (text == "mpi") {
    if (rank)
      throw wrong_rendezvous("--rank", fmt::format("{}", *rank),
                             "nothing with --rendezvous mpi, which numbers the ranks");
    return settings;
  }
  if (text == "env") {
    read_environment(settings);
  } else if (text.starts_with("file:") && text.size() > 5) {
    settings.kind = RendezvousKind::kFile;
    settings.path = text.substr(5);
  } else if (text.starts_with("tcp:")) {
    read_address(settings, text.substr(4));
  } else {
    throw wrong_rendezvous("--rendezvous", text, "mpi, env, file:PATH or tcp:HOST:PORT");
  }
  if (!settings.rank) {
    const auto number = variable("RANK");
    if (!number) {
      throw Error(ErrorCode::kUsage, fmt::format("--rendezvous {}: this process does not know its rank", text))
          .at({.key = "--rank"})
          .hint("give --rank N, or set the variable RANK");
    }
    settings.rank = parse_count(*number, "RANK");
  }
  if (*settings.rank >= size) {
    throw wrong_rendezvous("--rank", fmt::format("{}", *settings.rank),
                           fmt::format("0 to {}, by the plan's gpus", size - 1));
  }
  return settings;
}

Meeting meet(const RendezvousSettings& settings) {
  Meeting meeting;
  if (settings.kind == RendezvousKind::kMpi) {
    meeting.mpi = start_mpi();
    if (meeting.mpi->size() != settings.size) {
      const std::uint64_t started = meeting.mpi->size();
      throw Error(ErrorCode::kUsage, fmt::format("MPI started {} process{}, the plan has {} ranks", started,
                                                 started == 1 ? "" : "es", settings.size))
          .hint(fmt::format("mpirun -n {} zeroplan train ..., or zeroplan launch -- train ...", settings.size));
    }
  }
  const auto place = make_meeting_place(settings, meeting.mpi.get());
  meeting.rank = place->rank();
  meeting.members.resize(settings.size);
  meeting.data = std::make_unique<Listener>(0);
  meeting.members[meeting.rank] = {{host_name(), host_addresses(), meeting.data->port()},
                                   static_cast<std::uint64_t>(::getpid())};
  const Deadline deadline = SteadyClock::now() + settings.timeout;
  if (meeting.rank == 0) {
    Host(settings, *place, meeting).run(deadline);
  } else {
    Guest(settings, *place, meeting).run(deadline);
  }
  return meeting;
}

Socket connect_to(const Endpoint& endpoint, Deadline deadline) {
  while (true) {
    for (const Place& place : places_of(endpoint)) {
      Socket socket = connect_to(place.host, place.port, std::min(deadline, SteadyClock::now() + kOneAttempt));
      if (socket.is_open()) return socket;
    }
    if (SteadyClock::now() >= deadline) return {};
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace zeroplan::runtime
