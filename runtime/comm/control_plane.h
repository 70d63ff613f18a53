// What the processes of a run tell each other beside their data. Purpose: signs of life, failures, small decisions that
// all must take alike. Main types: HeartbeatSettings, ControlPlane. Depends on rendezvous and stop_signal.
//
// Every rank has one connection with rank 0, which passes on what concerns all. A thread of each process sends a sign
// of life over it, also while the process computes: a rank is slow as long as signs come, dead once its connection
// closed, stopped (or cut off) once no sign came for the limit.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/comm/rendezvous.h"
#include "runtime/stop_signal.h"

namespace zeroplan::runtime {

struct HeartbeatSettings {
  std::chrono::milliseconds limit{10'000};  ///< silence after which a rank counts as lost
  /// From the discovery of a failure until a process that did not end by itself is ended.
  std::chrono::milliseconds grace{4'000};
};

/// One process' end. Gatherings come in the same order on all ranks, from one thread each.
class ControlPlane {
 public:
  /// Takes the connections of the meeting.
  ControlPlane(Meeting& meeting, const HeartbeatSettings& settings);
  /// Says good-bye to nobody: see `leave`.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  /// All ranks' texts, by rank. \throws the failure of any rank
  std::vector<std::string> all_gather(const std::string& text);
  std::string broadcast(const std::string& text) { return all_gather(text).front(); }
  void barrier() { all_gather(""); }
  /// True on all ranks if it is on one.
  bool any(bool value);

  /// Raised when a rank fails. Detach it before it ends.
  void attach(StopSignal& stop);
  void detach();

  /// A rank was lost or has failed.
  bool has_failed() const;
  /// After any failure of this or another rank: tells the others and says who reports it.
  /// \returns what this process has to say; nothing if another process says it, and has had the time to: a launcher
  ///   kills all processes when the first one ends
  std::optional<Error> settle(const Error& error);
  /// In order: when all ranks have come to the same place. \throws as `all_gather`
  void leave();

 private:
  struct Peer;
  struct Failure {
    Error error;
    bool is_mine_to_say = false;
    SteadyClock::time_point since;
  };

  bool is_hub() const { return rank_ == 0; }
  void serve();
  void turn(SteadyClock::time_point now);
  void wake();
  void read(Peer& peer);
  void write(Peer& peer);
  void handle(Peer& peer, const Frame& frame);
  void send_to_all(FrameKind kind, std::string_view payload);
  void gather_if_complete();
  void lose(Peer& peer, const std::string& how);
  void fail(Failure failure, std::uint64_t rank);
  void end_process_if_stuck(SteadyClock::time_point now);
  bool has_flushed() const;
  bool is_hub_gone() const;

  const std::uint64_t rank_;
  const std::vector<Member> members_;
  const HeartbeatSettings settings_;
  const std::chrono::milliseconds interval_;
  Socket wake_;  ///< an eventfd

  mutable std::mutex mutex_;  ///< guards all below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::optional<std::string>> parts_;     ///< rank 0: of the gathering under way, by rank
  std::optional<std::vector<std::string>> gathered_;  ///< for this process to take
  std::optional<Failure> failure_;
  StopSignal* stop_ = nullptr;
  bool is_settled_ = false;  ///< this process is about to end by itself
  bool is_leaving_ = false;
  bool quits_ = false;
  SteadyClock::time_point next_beat_;

  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace zeroplan::runtime
