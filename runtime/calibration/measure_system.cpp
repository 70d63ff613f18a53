#include "runtime/calibration/measure_system.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "kernels/ranges.h"
#include "models/core/error.h"
#include "runtime/comm/loopback.h"
#include "runtime/timeline.h"

namespace zeroplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::uint64_t, 5> kCollectiveBytes = {1u << 12, 1u << 16, 1u << 18, 1u << 21, 1u << 24};

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

using Collective = void (Collectives::*)(Channel, const CollectiveCall&);

/// A call over one group of `bytes`, in place, whose buffer the body keeps alive.
RankBody collective_body(LoopbackGroup& group, std::size_t rank, Collective collective, DType dtype,
                         std::uint64_t bytes) {
  std::shared_ptr<Collectives> end = group.rank(rank);
  const std::uint64_t shard = std::max<std::uint64_t>(bytes / size_of(dtype) / group.size(), 1);
  auto whole = std::make_shared<FloatBuffer>((shard * group.size() * size_of(dtype) + 3) / sizeof(float));
  std::fill_n(whole->data(), whole->size(), 0.0f);  // sums over and over again stay finite
  auto call = std::make_shared<CollectiveCall>();
  call->dtype = dtype;
  call->pieces.push_back({whole->data(), whole->data(), shard, 0, shard});
  return [end, collective, call, whole](kernels::Workers&) { ((*end).*collective)(Channel::kReduce, *call); };
}

Error io_error(const std::filesystem::path& path, std::string_view what) {
  return Error(ErrorCode::kIo, fmt::format("{}: {} failed: {}", path.string(), what, std::strerror(errno)))
      .at({.file = path.string()})
      .hint("give another folder with --disk-dir, or none");
}

/// A file that is closed and removed again.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& directory)
      : path_(directory / fmt::format("zeroplan-calibrate-{}.tmp", ::getpid())),
        descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    if (descriptor_ < 0) throw io_error(path_, "creating the file");
  }
  ~ScratchFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace

std::vector<planner::OpPoint> measure_collectives(std::size_t ranks, DType dtype, std::uint64_t most_bytes,
                                                  const Effort& effort, const Progress& progress) {
  const std::array<std::pair<std::string, Collective>, 3> kinds = {{{"all_gather", &Collectives::all_gather},
                                                                    {"reduce_scatter", &Collectives::reduce_scatter},
                                                                    {"all_reduce", &Collectives::all_reduce}}};
  const RankTeam team(ranks, 1, effort);
  std::vector<planner::OpPoint> points;
  const auto measure = [&](const std::string& op, Collective collective, std::uint64_t bytes) {
    if (progress) progress(fmt::format("{} {} {} bytes, {} rank(s)", op, to_string(dtype), bytes, ranks));
    StopSignal stop;
    LoopbackGroup group(ranks, stop);
    return team.time([&](std::size_t rank) { return collective_body(group, rank, collective, dtype, bytes); });
  };
  for (const auto& [op, collective] : kinds) {
    for (const std::uint64_t bytes : kCollectiveBytes) {
      if (bytes <= most_bytes) points.push_back({op, dtype, ranks, bytes, 1, 1, measure(op, collective, bytes)});
    }
  }
  if (dtype == DType::kFp32) {
    points.push_back({"exchange", dtype, ranks, 1, 1, 1, measure("exchange", &Collectives::all_gather, 16 * ranks)});
  }
  return points;
}

Seconds measure_lane_switch(int repeats) {
  // Long enough that the waiting thread sleeps, as a lane does while another computes.
  constexpr auto kPause = std::chrono::microseconds(500);
  Timeline go;
  std::vector<Clock::time_point> given(static_cast<std::size_t>(repeats)), seen(static_cast<std::size_t>(repeats));
  {
    const std::jthread lane([&] {
      for (std::size_t i = 0; i < seen.size(); ++i) {
        go.wait(i + 1);
        seen[i] = Clock::now();
      }
    });
    for (Clock::time_point& time : given) {
      std::this_thread::sleep_for(kPause);
      time = Clock::now();
      go.advance();
    }
  }
  std::vector<double> delays;
  for (std::size_t i = 0; i < seen.size(); ++i) delays.push_back(std::max(0.0, seconds_between(given[i], seen[i])));
  std::nth_element(delays.begin(), delays.begin() + repeats / 2, delays.end());
  return Seconds(delays[static_cast<std::size_t>(repeats) / 2]);
}

BytesPerSecond measure_memory(const RankTeam& team, std::uint64_t bytes) {
  const std::uint64_t count = bytes / sizeof(float) / team.ranks();
  const Seconds time = team.time([&](std::size_t) -> RankBody {
    auto from = std::make_shared<FloatBuffer>(count);
    auto to = std::make_shared<FloatBuffer>(count);
    return [=](kernels::Workers& workers) {
      kernels::cpu::copy({.count = count, .x = from->data(), .out = to->data()}, workers);
    };
  });
  return BytesPerSecond(2.0 * static_cast<double>(count * sizeof(float) * team.ranks()) / time.value());
}

DiskRates measure_disk(const std::filesystem::path& directory, std::uint64_t bytes) {
  constexpr std::uint64_t kBlock = std::uint64_t{4} << 20;
  const ScratchFile file(directory);
  std::vector<char> block(kBlock, 'z');
  const std::uint64_t blocks = std::max<std::uint64_t>(bytes / kBlock, 1);
  const auto amount = static_cast<double>(blocks * kBlock);
  const auto transfer = [&](auto&& one, std::string_view what) {
    for (std::uint64_t i = 0; i < blocks; ++i) {
      for (std::uint64_t done = 0; done < kBlock;) {
        const auto n = one(block.data() + done, kBlock - done, static_cast<off_t>(i * kBlock + done));
        if (n <= 0) throw io_error(file.path(), what);
        done += static_cast<std::uint64_t>(n);
      }
    }
  };
  DiskRates rates;
  Clock::time_point start = Clock::now();
  transfer([&](const char* data, std::size_t n, off_t at) { return ::pwrite(file.descriptor(), data, n, at); },
           "writing");
  if (::fsync(file.descriptor()) != 0) throw io_error(file.path(), "syncing");
  rates.write = BytesPerSecond(amount / seconds_between(start, Clock::now()));
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  start = Clock::now();
  transfer([&](char* data, std::size_t n, off_t at) { return ::pread(file.descriptor(), data, n, at); }, "reading");
  rates.read = BytesPerSecond(amount / seconds_between(start, Clock::now()));
  return rates;
}

}  // namespace zeroplan::runtime
