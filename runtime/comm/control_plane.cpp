#include "runtime/comm/control_plane.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace zeroplan::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestInterval{1000};
/// For the last words before a process ends.
constexpr milliseconds kFarewell{2000};
/// For the process that reports a failure, until others end.
constexpr milliseconds kLastWord{5000};

std::string pack(const std::vector<std::optional<std::string>>& parts) {
  std::string bytes;
  for (const auto& part : parts) append_frame(bytes, FrameKind::kBlob, part.value());
  return bytes;
}

std::vector<std::string> unpack(std::string bytes) {
  std::vector<std::string> parts;
  while (auto frame = take_frame(bytes)) parts.push_back(std::move(frame->payload));
  return parts;
}

Json error_json(std::uint64_t rank, const Error& error) {
  return {{"rank", rank},
          {"code", static_cast<int>(error.code())},
          {"message", error.message()},
          {"hint", error.hint()},
          {"file", error.place().file},
          {"key", error.place().key},
          {"value", error.place().value}};
}

Error error_from(const JsonView& view) {
  const std::uint64_t code = view.at("code").as_count();
  if (code > static_cast<std::uint64_t>(ErrorCode::kInternal)) throw view.at("code").unexpected("a code of zeroplan");
  return Error(static_cast<ErrorCode>(code), view.at("message").as_string())
      .at({.file = view.string_or("file", ""), .key = view.string_or("key", ""), .value = view.string_or("value", "")})
      .hint(view.string_or("hint", ""));
}

}  // namespace

/// A connection: rank 0 has one with each other rank, they have one with rank 0.
struct ControlPlane::Peer {
  Socket socket;
  std::uint64_t rank = 0;
  std::string in;
  std::string out;
  SteadyClock::time_point heard;
  bool has_left = false;
};

ControlPlane::ControlPlane(Meeting& meeting, const HeartbeatSettings& settings)
    : rank_(meeting.rank),
      members_(meeting.members),
      settings_(settings),
      interval_(std::clamp(settings.limit / 4, milliseconds(10), kLongestInterval)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      parts_(meeting.size()),
      next_beat_(SteadyClock::now()) {
  if (!wake_.is_open()) throw Error(ErrorCode::kIo, fmt::format("eventfd: {}", std::strerror(errno)));
  for (std::size_t i = 0; i < meeting.connections.size(); ++i) {
    if (!meeting.connections[i].is_open()) continue;
    auto peer = std::make_unique<Peer>();
    peer->socket = std::move(meeting.connections[i]);
    peer->rank = is_hub() ? i : 0;
    peer->heard = SteadyClock::now();
    peers_.push_back(std::move(peer));
  }
  thread_ = std::thread([this] { serve(); });
}

ControlPlane::~ControlPlane() {
  {
    const std::lock_guard lock(mutex_);
    quits_ = true;
  }
  wake();
  thread_.join();
  // After a failure the others see by these connections when this process has ended, and so has spoken.
  if (failure_) {
    for (const auto& peer : peers_) peer->socket.release();
  }
}

void ControlPlane::wake() {
  const std::uint64_t one = 1;
  // A counter that is full wakes as well.
  static_cast<void>(!::write(wake_.descriptor(), &one, sizeof(one)));
}

std::vector<std::string> ControlPlane::all_gather(const std::string& text) {
  std::unique_lock lock(mutex_);
  if (failure_) throw failure_->error;
  for (const auto& peer : peers_) {
    if (peer->has_left) lose(*peer, "has left before the others");
  }
  if (is_hub()) {
    parts_[0] = text;
    gather_if_complete();
  } else {
    append_frame(peers_.front()->out, FrameKind::kBlob, text);
  }
  wake();
  changed_.wait(lock, [this] { return gathered_ || failure_; });
  if (!gathered_) throw failure_->error;
  std::vector<std::string> all = std::move(*gathered_);
  gathered_.reset();
  ZP_CHECK(all.size() == members_.size());
  return all;
}

bool ControlPlane::any(bool value) {
  const auto all = all_gather(value ? "1" : "0");
  return std::find(all.begin(), all.end(), "1") != all.end();
}

void ControlPlane::attach(StopSignal& stop) {
  const std::lock_guard lock(mutex_);
  stop_ = &stop;
  if (failure_) stop.raise(std::make_exception_ptr(failure_->error));
}

void ControlPlane::detach() {
  const std::lock_guard lock(mutex_);
  stop_ = nullptr;
}

bool ControlPlane::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

std::optional<Error> ControlPlane::settle(const Error& error) {
  std::unique_lock lock(mutex_);
  is_settled_ = true;
  std::optional<Error> mine = error;
  if (failure_) {
    mine = failure_->is_mine_to_say ? std::optional(failure_->error) : std::nullopt;
  } else if (is_hub()) {
    fail({error, true, SteadyClock::now()}, rank_);
  } else {
    // Rank 0 says it, if it still can.
    append_frame(peers_.front()->out, FrameKind::kError, error_json(rank_, error).dump());
    wake();
    changed_.wait_for(lock, kFarewell, [this] { return failure_.has_value(); });
    if (!failure_) failure_ = Failure{error, true, SteadyClock::now()};  // rank 0 does not answer
    if (!failure_->is_mine_to_say) mine.reset();
  }
  wake();
  changed_.wait_for(lock, kFarewell, [this] { return has_flushed(); });
  // Where rank 0 itself is lost, nothing tells when rank 1 has spoken.
  if (!mine && !is_hub_gone()) {
    changed_.wait_for(lock, kLastWord, [this] { return is_hub_gone(); });
  } else if (!mine) {
    changed_.wait_for(lock, kFarewell / 4, [] { return false; });
  }
  return mine;
}

bool ControlPlane::is_hub_gone() const {
  return !is_hub() && !peers_.front()->socket.is_open();
}

void ControlPlane::leave() {
  barrier();
  std::unique_lock lock(mutex_);
  is_leaving_ = true;
  send_to_all(FrameKind::kBye, "");
  wake();
  const auto all_left = [this] {
    return std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->has_left; });
  };
  changed_.wait_for(lock, kFarewell, [&] { return has_flushed() && all_left(); });
}

bool ControlPlane::has_flushed() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const auto& peer) { return peer->out.empty() || !peer->socket.is_open(); });
}

void ControlPlane::serve() {
  std::vector<pollfd> polled;
  SteadyClock::time_point last = SteadyClock::now();
  while (true) {
    polled.assign(1, {wake_.descriptor(), POLLIN, 0});
    {
      const std::lock_guard lock(mutex_);
      if (quits_) return;
      for (const auto& peer : peers_) {
        const auto events = static_cast<short>(POLLIN | (peer->out.empty() ? 0 : POLLOUT));
        polled.push_back({peer->socket.descriptor(), events, 0});  // a closed one is left out by poll
      }
    }
    ::poll(polled.data(), polled.size(), static_cast<int>(interval_.count()));
    std::uint64_t unused = 0;
    static_cast<void>(!::read(wake_.descriptor(), &unused, sizeof(unused)));
    const std::lock_guard lock(mutex_);
    const SteadyClock::time_point now = SteadyClock::now();
    // Whoever was stopped itself, with all others perhaps, cannot tell how long they were silent.
    const auto gap = now - last;
    if (gap > settings_.limit / 2) {
      for (const auto& peer : peers_) peer->heard = now;
    }
    last = now;
    turn(now);
  }
}

void ControlPlane::turn(SteadyClock::time_point now) {
  for (const auto& peer : peers_) read(*peer);
  if (now >= next_beat_ && !is_leaving_) {
    send_to_all(FrameKind::kBeat, "");
    next_beat_ = now + interval_;
  }
  for (const auto& peer : peers_) {
    write(*peer);
    if (!failure_ && !is_leaving_ && peer->socket.is_open() && now - peer->heard > settings_.limit) {
      lose(*peer, fmt::format("gave no sign of life for {:g} s: it was stopped, or its host cannot be reached",
                              std::chrono::duration<double>(settings_.limit).count()));
    }
  }
  changed_.notify_all();
  end_process_if_stuck(now);
}

void ControlPlane::read(Peer& peer) {
  std::array<char, 65536> block;
  bool is_closed = false;
  while (peer.socket.is_open()) {
    const ssize_t n = ::recv(peer.socket.descriptor(), block.data(), block.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    is_closed = n <= 0;
    if (is_closed) break;
    peer.in.append(block.data(), static_cast<std::size_t>(n));
    peer.heard = SteadyClock::now();
  }
  try {
    while (const auto frame = take_frame(peer.in)) handle(peer, *frame);
  } catch (const Error& error) {
    return lose(peer, fmt::format("sent what cannot be understood: {}", error.message()));
  }
  if (is_closed) {
    peer.socket.close();
    if (!peer.has_left) lose(peer, "is gone: it ended without a word");
  }
}

void ControlPlane::write(Peer& peer) {
  while (peer.socket.is_open() && !peer.out.empty()) {
    const ssize_t n = ::send(peer.socket.descriptor(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // full, or broken: reading tells
    peer.out.erase(0, static_cast<std::size_t>(n));
  }
}

void ControlPlane::handle(Peer& peer, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kBeat:
      return;
    case FrameKind::kBlob:
      if (!is_hub() || parts_[peer.rank]) throw Error(ErrorCode::kCollective, "a part that nobody asked for");
      parts_[peer.rank] = frame.payload;
      return gather_if_complete();
    case FrameKind::kGathered:
      if (is_hub() || gathered_) throw Error(ErrorCode::kCollective, "a gathering that nobody asked for");
      gathered_ = unpack(frame.payload);
      return;
    case FrameKind::kError:
    case FrameKind::kFailed: {
      const Json document = parse_json(frame.payload, "another rank's report");
      const JsonView view(document, "another rank's report");
      Error error = error_from(view);
      const bool is_said_here = frame.kind == FrameKind::kError;
      if (is_said_here) error.with(fmt::format("rank {}", peer.rank));
      return fail({error, is_said_here && is_hub(), SteadyClock::now()}, view.at("rank").as_count());
    }
    case FrameKind::kBye:
      peer.has_left = true;
      return;
    case FrameKind::kJoin:
    case FrameKind::kRoster:
    case FrameKind::kRefused:
    case FrameKind::kConnect:
      throw Error(ErrorCode::kCollective, "a message of the rendezvous");
  }
}

void ControlPlane::send_to_all(FrameKind kind, std::string_view payload) {
  for (const auto& peer : peers_) {
    if (peer->socket.is_open()) append_frame(peer->out, kind, payload);
  }
}

void ControlPlane::gather_if_complete() {
  if (!std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part.has_value(); })) return;
  const std::string packed = pack(parts_);
  send_to_all(FrameKind::kGathered, packed);
  gathered_ = unpack(packed);
  for (auto& part : parts_) part.reset();
  changed_.notify_all();
}

void ControlPlane::lose(Peer& peer, const std::string& how) {
  if (failure_ || is_leaving_) return;
  const Error error = Error(ErrorCode::kCollective, fmt::format("{} {}", members_[peer.rank].describe(peer.rank), how))
                          .hint("what that rank said last stands above; go on from the last checkpoint with --resume");
  // Rank 0 speaks for all; rank 1 when rank 0 is the one that is lost.
  fail({error, is_hub() || rank_ == 1, SteadyClock::now()}, peer.rank);
}

void ControlPlane::fail(Failure failure, std::uint64_t rank) {
  if (failure_) return;
  if (is_hub()) send_to_all(FrameKind::kFailed, error_json(rank, failure.error).dump());
  failure_ = std::move(failure);
  if (stop_ != nullptr) stop_->raise(std::make_exception_ptr(failure_->error));
  changed_.notify_all();
}

void ControlPlane::end_process_if_stuck(SteadyClock::time_point now) {
  if (!failure_ || is_settled_ || now - failure_->since < settings_.grace) return;
  // A lane may be in a long computation, a file or a library that nothing wakes. The memory of this run is of no use
  // any more, so the process goes as it is; a checkpoint that was being written has no name yet.
  if (failure_->is_mine_to_say) {
    const std::string text = fmt::format("zeroplan: {}\n", failure_->error.message());
    static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  }
  ::_exit(1);
}

}  // namespace zeroplan::runtime
