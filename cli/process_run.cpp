#include "cli/process_run.h"

#include <fmt/format.h>

namespace zeroplan::cli {
namespace {

/// \throws Error{kUsage} naming the first thing in which a rank differs from rank 0
void check_sameness(runtime::ProcessGroup& group, const Json& sameness) {
  const auto all = group.control().all_gather(sameness.dump());
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    const Json first = parse_json(all[0], "what rank 0 was started with");
    const Json other = parse_json(all[r], "what another rank was started with");
    for (const auto& [key, value] : first.items()) {
      const Json there = other.value(key, Json());
      if (there == value) continue;
      throw Error(ErrorCode::kUsage,
                  fmt::format("{} differs: {} has {}, rank 0 has {}", key,
                              group.member(r).describe(static_cast<std::uint64_t>(r)), there.dump(), value.dump()))
          .at({.key = key})
          .hint("start all processes of a run with the same plan, data and flags");
    }
  }
}

/// Tells the other processes, and throws on with what this one has to say.
[[noreturn]] void give_up(runtime::ProcessGroup& group, const Error& error, bool had_begun) {
  const auto mine = group.control().settle(error);
  if (!mine) throw SaidElsewhere(error);
  if (had_begun || mine->code() == ErrorCode::kCollective) throw RunFailed(*mine);
  throw Error(*mine);
}

}  // namespace

Answer run_as_processes(const std::optional<runtime::ProcessSettings>& settings, const Json& sameness,
                        const std::function<Answer(runtime::ProcessGroup*)>& body) {
  if (!settings) return body(nullptr);
  runtime::ProcessGroup group(*settings);
  try {
    check_sameness(group, sameness);
    Answer answer = body(&group);
    if (group.rank() != 0) {
      // Rank 0's exit code says it all; another one would make mpirun kill rank 0 before it has spoken.
      answer.is_silent = true;
      answer.exit_code = kExitDone;
    }
    group.control().leave();
    return answer;
  } catch (const RunFailed& error) {
    give_up(group, error, true);
  } catch (const Error& error) {
    give_up(group, error, false);
  } catch (const std::bad_alloc&) {
    give_up(group, Error(ErrorCode::kIo, "this process ran out of host memory"), true);
  }
}

}  // namespace zeroplan::cli
