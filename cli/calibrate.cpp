#include "runtime/calibrate.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "models/core/file_io.h"
#include "models/core/text.h"

namespace zeroplan::cli {
namespace {

/// `calibrate [-o machine.json] [--disk-dir DIR] [--quick]`
class CalibrateCommand : public Command {
 public:
  std::string name() const override { return "calibrate"; }
  std::string description() const override { return "measures this machine and prints the machine document"; }

  void add_flags(CLI::App& app) override {
    app.add_option("-o,--output", output_, "file to which the machine document is written");
    app.add_option("--disk-dir", disk_dir_, "folder on the disk that offload would use; measured too");
    app.add_flag("--quick", quick_, "fewer repeats, smaller extents, fp32 alone");
  }

  Answer run(const GlobalOptions& options) override {
    runtime::CalibrateOptions calibrate;
    calibrate.quick = quick_;
    if (!disk_dir_.empty()) calibrate.disk_dir = disk_dir_;
    calibrate.command =
        fmt::format("zeroplan calibrate{}{}", quick_ ? " --quick" : "", disk_dir_.empty() ? "" : " --disk-dir");
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    if (!options.quiet) {
      calibrate.progress = [terminal](const std::string& what) {
        if (terminal) {
          std::fprintf(stderr, "\r\033[K%s", what.c_str());
        } else {
          std::fprintf(stderr, "%s\n", what.c_str());
        }
      };
    }
    const planner::Machine machine = runtime::calibrate(calibrate);
    if (terminal && !options.quiet) std::fprintf(stderr, "\r\033[K");
    Answer answer;
    answer.document = machine.to_json();
    const std::string text = answer.document.dump(1) + "\n";
    if (output_.empty()) {
      answer.text = text;
    } else {
      write_file_atomically(output_, text);
      answer.text = fmt::format(
          "{} cores: matrix products {:.1f} GFLOP/s, memory {:.1f} GB/s, loopback {:.1f} GB/s, AdamW {:.0f} M "
          "parameters/s\n"
          "machine written to {}; use it with --machine {}\n",
          machine.cores, machine.rates.fp32_flops.per_second() / 1e9, machine.rates.host_bytes.per_second() / 1e9,
          machine.rates.link_bytes.per_second() / 1e9, machine.rates.host_adam_params.per_second() / 1e6, output_,
          output_);
    }
    return answer;
  }

 private:
  std::string output_;
  std::string disk_dir_;
  bool quick_ = false;
};

}  // namespace

std::unique_ptr<Command> make_calibrate_command() {
  return std::make_unique<CalibrateCommand>();
}

}  // namespace zeroplan::cli
