// A build with MPI. Nothing outside this file calls it.
#include "runtime/comm/mpi_session.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "models/core/error.h"
#include "runtime/comm/backoff.h"

namespace zeroplan::runtime {
namespace {

constexpr int kTag = 0;
constexpr std::size_t kLongestText = std::size_t{1} << 20;

Error mpi_error(const char* call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Error(ErrorCode::kCollective, fmt::format("{}: {}", call, std::string(text.data(), length)));
}

void check(const char* call, int code) {
  if (code != MPI_SUCCESS) throw mpi_error(call, code);
}

/// What Open MPI does wrong by default where several ranks share few cores, or a container forbids reading another
/// process' memory. Whoever sets these variables has the last word.
void set_defaults() {
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  ::setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(std::uint64_t size) {
    for (Line& line : lines_) {
      check("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &line.communicator));
      check("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(line.communicator, MPI_ERRORS_RETURN));
      line.requests.assign(2 * size, MPI_REQUEST_NULL);
    }
  }

  void exchange(Channel channel, std::span<const Message> sends, std::span<const Message> receives,
                const StopSignal& stop) override {
    Line& line = lines_[static_cast<std::size_t>(channel)];
    ZP_CHECK(sends.size() + receives.size() <= line.requests.size());
    int count = 0;
    int code = MPI_SUCCESS;
    for (const Message& m : receives) {
      if (code != MPI_SUCCESS) break;
      code = MPI_Irecv(m.data, static_cast<int>(m.bytes), MPI_BYTE, static_cast<int>(m.peer), kTag, line.communicator,
                       &line.requests[count++]);
    }
    for (const Message& m : sends) {
      if (code != MPI_SUCCESS) break;
      code = MPI_Isend(m.data, static_cast<int>(m.bytes), MPI_BYTE, static_cast<int>(m.peer), kTag, line.communicator,
                       &line.requests[count++]);
    }
    int is_done = 0;
    Backoff backoff;
    while (code == MPI_SUCCESS) {
      code = MPI_Testall(count, line.requests.data(), &is_done, MPI_STATUSES_IGNORE);
      if (is_done != 0) return;
      stop.check();
      backoff.pause();
    }
    // A peer that died is named by whoever watches the peers; MPI only knows that something went wrong.
    wait_for_stop(stop);
    throw mpi_error("MPI_Testall", code);
  }

 private:
  /// A channel.
  struct Line {
    MPI_Comm communicator = MPI_COMM_NULL;
    std::vector<MPI_Request> requests;
  };
  std::array<Line, kChannels> lines_;
};

class OpenSession final : public MpiSession {
 public:
  OpenSession() {
    set_defaults();
    int provided = MPI_THREAD_SINGLE;
    check("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (provided < MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      throw Error(ErrorCode::kUnsupported, "this MPI does not let several threads call it (MPI_THREAD_MULTIPLE)")
          .hint("use an MPI built with threads, or --rendezvous env, file:PATH or tcp:HOST:PORT");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~OpenSession() override {
    if (!is_abandoned_) MPI_Finalize();
  }
  OpenSession(const OpenSession&) = delete;
  OpenSession& operator=(const OpenSession&) = delete;

  std::uint64_t rank() const override { return static_cast<std::uint64_t>(rank_); }
  std::uint64_t size() const override { return static_cast<std::uint64_t>(size_); }

  std::string broadcast(const std::string& text) override {
    std::uint64_t length = text.size();
    check("MPI_Bcast", MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    ZP_CHECK(length <= kLongestText);
    std::string result = rank_ == 0 ? text : std::string(length, '\0');
    check("MPI_Bcast", MPI_Bcast(result.data(), static_cast<int>(length), MPI_BYTE, 0, MPI_COMM_WORLD));
    return result;
  }

  std::unique_ptr<Transport> transport() override { return std::make_unique<MpiTransport>(size()); }
  void abandon() override { is_abandoned_ = true; }

 private:
  int rank_ = 0;
  int size_ = 1;
  bool is_abandoned_ = false;
};

}  // namespace

bool has_mpi() {
  return true;
}

std::unique_ptr<MpiSession> start_mpi() {
  return std::make_unique<OpenSession>();
}

}  // namespace zeroplan::runtime
