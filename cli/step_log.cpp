#include "cli/step_log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "models/core/text.h"

namespace zeroplan::cli {
namespace {

/// JSON has no NaN: a loss that is not finite becomes null.
Json finite(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace

StepLog::StepLog(const std::string& path, const GlobalOptions& options, std::uint64_t first_step,
                 std::uint64_t last_step)
    : path_(path),
      shows_(!options.quiet),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      last_step_(last_step),
      interval_(std::max<std::uint64_t>(1, (last_step - std::min(first_step, last_step)) / 20)) {
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), "we"));
  if (!file_) {
    throw Error(ErrorCode::kIo, fmt::format("--log {}: cannot create: {}", path, std::strerror(errno)))
        .at({.file = path, .key = "--log"});
  }
}

StepLog::~StepLog() {
  if (has_line_) std::fputc('\n', stderr);
}

void StepLog::write(const Json& line) {
  if (!file_) return;
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("--log {}: cannot write: {}", path_, std::strerror(errno)))
        .at({.file = path_, .key = "--log"});
  }
}

void StepLog::step(const runtime::StepReport& report) {
  Json line = {{"step", report.step},
               {"loss", finite(report.loss)},
               {"lr", report.learning_rate},
               {"grad_norm", finite(report.grad_norm)},
               {"tokens_per_s", report.tokens_per_s},
               {"step_s", report.step_s}};
  if (report.skipped) line["skipped"] = true;
  if (report.skipped || report.scales_loss) line["loss_scale"] = report.loss_scale;
  write(line);
  if (shows_) show(report);
}

void StepLog::show(const runtime::StepReport& report) {
  smooth_step_s_ = smooth_step_s_ == 0 ? report.step_s : 0.9 * smooth_step_s_ + 0.1 * report.step_s;
  const double left = smooth_step_s_ * static_cast<double>(last_step_ - std::min(report.step, last_step_));
  std::string text = fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s", report.step, last_step_, report.loss,
                                 report.tokens_per_s);
  if (left > 0) text += fmt::format("  {} left", format_duration(Seconds(left)));
  if (is_terminal_) {
    std::fputs(fmt::format("\r\x1b[2K{}", text).c_str(), stderr);
    std::fflush(stderr);
    has_line_ = true;
  } else if (report.step % interval_ == 0 || report.step == last_step_) {
    std::fputs((text + "\n").c_str(), stderr);
  }
}

void StepLog::summary(const Json& document) {
  write(document);
}

}  // namespace zeroplan::cli
