#include <chrono>

#include <fmt/format.h>

#include "cli/commands.h"
#include "models/core/file_io.h"
#include "models/core/text.h"
#include "planner/packing/instance_csv.h"

namespace zeroplan::cli {
namespace {

constexpr Bytes kMostFileBytes{std::uint64_t{64} << 20};

/// `pack FILE.csv --capacity SIZE`: the packer alone, on an instance in the public format.
class PackCommand : public Command {
 public:
  std::string name() const override { return "pack"; }
  std::string description() const override {
    return "packs the buffers of a CSV file (id,lower,upper,size) into one arena";
  }

  void add_flags(CLI::App& app) override {
    app.add_option("FILE", file_, "CSV file with the columns id,lower,upper,size; live in [lower, upper)")->required();
    app.add_option("--capacity", capacity_, "size of the arena: 1048576, 24GiB, ...")->required();
    app.add_option("--alignment", alignment_, "offsets are multiples of it (1)");
    app.add_option("--time-limit", time_limit_, "seconds after which the search ends (60)");
    app.add_option("-o,--output", output_, "file to which the packing is written: the same columns and offset");
  }

  Answer run(const GlobalOptions&) override {
    planner::IntervalOptions options;
    const Bytes capacity = parse_size(capacity_, "--capacity");
    options.capacity = capacity.count();
    options.alignment = parse_size(alignment_, "--alignment").count();
    if (options.alignment == 0) {
      throw Error(ErrorCode::kUsage, "--alignment is 0, expected at least 1")
          .at({.key = "--alignment", .value = alignment_});
    }
    const double limit_s = parse_number(time_limit_, "--time-limit");
    if (limit_s < 0) {
      throw Error(ErrorCode::kUsage, fmt::format("--time-limit is {}, expected 0 or more seconds", time_limit_))
          .at({.key = "--time-limit", .value = time_limit_});
    }
    options.time_limit = std::chrono::duration<double>(limit_s);
    const planner::NamedInstance instance = planner::read_instance_csv(read_file(file_, kMostFileBytes), file_);
    const auto begin = std::chrono::steady_clock::now();
    const planner::IntervalPacking packing = planner::pack_intervals(instance.buffers, options);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    const bool packed = packing.outcome == planner::PackingOutcome::kPacked;
    if (packed && !output_.empty()) write_file_atomically(output_, write_packing_csv(instance, packing.offsets));
    Answer answer;
    answer.exit_code = packed ? kExitDone : kExitNo;
    answer.document = document(instance, packing, capacity, elapsed.count());
    answer.text = text(instance, packing, capacity, elapsed.count());
    return answer;
  }

 private:
  Json document(const planner::NamedInstance& instance, const planner::IntervalPacking& packing, Bytes capacity,
                double elapsed_s) const {
    const bool packed = packing.outcome == planner::PackingOutcome::kPacked;
    Json offsets = Json::array();
    for (std::size_t i = 0; packed && i < instance.ids.size(); ++i) {
      offsets.push_back({{"id", instance.ids[i]}, {"offset", packing.offsets[i]}});
    }
    return {{"file", file_},
            {"buffers", instance.ids.size()},
            {"capacity", capacity.count()},
            {"packed", packed},
            {"height", packing.height},
            {"lower_bound", packing.lower_bound},
            {"elapsed_ms", elapsed_s * 1e3},
            {"proven_infeasible", packing.outcome == planner::PackingOutcome::kInfeasible},
            {"offsets", std::move(offsets)}};
  }

  std::string text(const planner::NamedInstance& instance, const planner::IntervalPacking& packing, Bytes capacity,
                   double elapsed_s) const {
    std::string verdict = "packed";
    if (packing.outcome == planner::PackingOutcome::kInfeasible) verdict = "not packed: proven that no packing fits";
    if (packing.outcome == planner::PackingOutcome::kUnknown)
      verdict = "not packed: none found within the time limit, none ruled out";
    std::string lines = fmt::format("{}: {}\n", file_, verdict);
    lines += fmt::format("  buffers      {}\n", format_count(instance.ids.size()));
    lines += fmt::format("  capacity     {} bytes\n", format_count(capacity.count()));
    lines += fmt::format("  height       {} bytes{}\n", format_count(packing.height),
                         packing.outcome == planner::PackingOutcome::kPacked ? "" : " (the lowest packing found)");
    lines += fmt::format("  lower bound  {} bytes\n", format_count(packing.lower_bound));
    lines += fmt::format("  elapsed      {}\n", format_duration(Seconds(elapsed_s)));
    return lines;
  }

  std::string file_;
  std::string capacity_;
  std::string alignment_ = "1";
  std::string time_limit_ = "60";
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> make_pack_command() {
  return std::make_unique<PackCommand>();
}

}  // namespace zeroplan::cli
