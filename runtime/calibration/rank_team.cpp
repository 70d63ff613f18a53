#include "runtime/calibration/rank_team.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace zeroplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostCalls = 1u << 16;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

RankTeam::RankTeam(std::size_t ranks, int threads, Effort effort) : threads_(threads), effort_(effort) {
  for (std::size_t rank = 0; rank < ranks; ++rank) workers_.push_back(std::make_unique<kernels::Workers>(threads));
}

Seconds RankTeam::time(const std::function<RankBody(std::size_t rank)>& prepare) const {
  const auto repeats = static_cast<std::size_t>(effort_.repeats);
  std::vector<std::vector<double>> times(ranks(), std::vector<double>(repeats, 0.0));
  std::barrier meeting(static_cast<std::ptrdiff_t>(ranks()));
  std::size_t calls = 1;  // set by rank 0 between two meetings
  std::mutex mutex;       // guards error
  std::exception_ptr error;
  const auto serve = [&](std::size_t rank) {
    // A rank that fails still comes to every meeting, so that the others end.
    const auto guarded = [&](auto&& action) {
      try {
        action();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    };
    kernels::Workers& workers = *workers_[rank];
    RankBody body;
    guarded([&] { body = prepare(rank); });
    meeting.arrive_and_wait();
    const bool failed = error != nullptr;  // nobody writes it between the meetings
    meeting.arrive_and_wait();
    if (failed) return;
    // Every rank makes the same number of calls, as bodies may wait for each other.
    const auto time_calls = [&] {
      meeting.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      guarded([&] {
        for (std::size_t i = 0; i < calls; ++i) body(workers);
      });
      const double once = seconds_since(start) / static_cast<double>(calls);
      meeting.arrive_and_wait();
      return once;
    };
    // The first calls wake threads up; what they take counts for the number of calls at most.
    for (int warm_up = 0; warm_up < 2; ++warm_up) {
      const double once = std::max(time_calls(), 1e-9);
      if (rank == 0) {
        calls = std::clamp<std::size_t>(static_cast<std::size_t>(effort_.least.value() / once) + 1, 1, kMostCalls);
      }
    }
    for (double& time : times[rank]) time = time_calls();
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks(); ++rank) threads.emplace_back(serve, rank);
  }
  if (error) std::rethrow_exception(error);
  std::vector<double> means(repeats, 0.0);
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      means[repeat] += times[rank][repeat] / static_cast<double>(ranks());
  }
  std::nth_element(means.begin(), means.begin() + static_cast<std::ptrdiff_t>(repeats / 2), means.end());
  return Seconds(means[repeats / 2]);
}

}  // namespace zeroplan::runtime
