#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/deepspeed/loss_scale.h"
#include "planner/deepspeed/rules/error_patterns.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/tensor_catalogue.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::size_t kMostExplanations = 8;

std::optional<double> number_after(const std::string& text, std::string_view words, std::size_t from = 0) {
  const std::size_t at = text.find(words, from);
  if (at == std::string::npos) return std::nullopt;
  const char* begin = text.data() + at + words.size();
  const char* end = text.data() + text.size();
  while (begin < end && (*begin == ' ' || *begin == ':' || *begin == '=' || *begin == '[')) ++begin;
  double value = 0;
  if (std::from_chars(begin, end, value).ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// A size as messages print it, with the half of its last digit.
struct PrintedSize {
  double bytes = 0;
  double tolerance = 0;
};

std::optional<PrintedSize> size_after(const std::string& text, std::string_view words) {
  const std::size_t at = text.find(words);
  const auto value = number_after(text, words);
  if (!value || *value <= 0) return std::nullopt;
  std::size_t cursor = at + words.size();
  while (cursor < text.size() && !std::isdigit(static_cast<unsigned char>(text[cursor]))) ++cursor;
  std::size_t decimals = 0;
  bool after_point = false;
  while (cursor < text.size() && (std::isdigit(static_cast<unsigned char>(text[cursor])) != 0 || text[cursor] == '.')) {
    if (after_point) ++decimals;
    if (text[cursor] == '.') after_point = true;
    ++cursor;
  }
  while (cursor < text.size() && text[cursor] == ' ') ++cursor;
  const std::string_view unit = std::string_view(text).substr(cursor, 3);
  double scale = 1;
  if (unit == "gib") scale = 1073741824.0;
  if (unit == "mib") scale = 1048576.0;
  if (unit == "kib") scale = 1024.0;
  if (unit.starts_with("gb")) scale = 1073741824.0;  // PyTorch and its tools print GiB as GB
  if (unit.starts_with("mb")) scale = 1048576.0;
  const double step = scale * std::pow(10.0, -static_cast<double>(std::min<std::size_t>(decimals, 9)));
  return PrintedSize{*value * scale, scale == 1 ? 0.5 : 0.5 * step * 1.02};
}

std::vector<CatalogueTensor> matches(const CheckInput& input, const PrintedSize& asked) {
  std::vector<CatalogueTensor> found;
  for (const CatalogueTensor& tensor : catalogue_of(input)) {
    if (std::abs(tensor.bytes - asked.bytes) <= asked.tolerance + 512) found.push_back(tensor);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const CatalogueTensor& a, const CatalogueTensor& b) { return a.likelihood > b.likelihood; });
  return found;
}

/// Without a match: which number of tokens would make the logits or activations so large.
std::vector<CatalogueTensor> scaled_to(const CheckInput& input, const PrintedSize& asked) {
  std::vector<CatalogueTensor> found;
  for (CatalogueTensor tensor : catalogue_of(input)) {
    if (tensor.bytes_per_token <= 0) continue;
    const double tokens = std::round(asked.bytes / tensor.bytes_per_token);
    const double bytes = tokens * tensor.bytes_per_token;
    if (tokens < 64 || tokens > 4e6 || std::abs(bytes - asked.bytes) > asked.tolerance + tensor.bytes_per_token)
      continue;
    tensor.bytes = bytes;
    tensor.formula = fmt::format("{} tokens x {} B", tokens, tensor.bytes_per_token);
    found.push_back(std::move(tensor));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const CatalogueTensor& a, const CatalogueTensor& b) { return a.likelihood > b.likelihood; });
  return found;
}

void explain_out_of_memory(Findings& findings, const CheckInput& input, CheckReport& report, const std::string& log) {
  const auto asked = size_after(log, "tried to allocate");
  if (!asked) {
    findings.error("memory", "the GPU ran out of memory; the message does not say how much was asked for",
                   "lower the micro batch, recompute activations, or raise the ZeRO stage");
    return;
  }
  const std::string size = format_size(Bytes(static_cast<std::uint64_t>(std::min(asked->bytes, 1e18))));
  if (input.model_config.is_null()) {
    findings.error("memory", fmt::format("the GPU ran out of memory on a request of {}", size),
                   "give --model (and --micro-batch, --seq) to "
                   "name the tensor");
    return;
  }
  std::vector<CatalogueTensor> found = matches(input, *asked);
  const bool exact = !found.empty();
  if (!exact) found = scaled_to(input, *asked);
  if (found.empty()) {
    findings.error("memory",
                   fmt::format("the GPU ran out of memory on a request of {}, which no tensor of this model has", size),
                   "check --micro-batch, --seq and --gpus; lower the micro batch or raise the ZeRO stage");
    return;
  }
  for (const CatalogueTensor& tensor : found) {
    if (report.explanations.size() >= kMostExplanations) break;
    std::optional<std::uint64_t> tokens;
    if (tensor.bytes_per_token > 0)
      tokens = static_cast<std::uint64_t>(std::llround(asked->bytes / tensor.bytes_per_token));
    report.explanations.push_back(
        {tensor.name, tensor.dtype, static_cast<std::uint64_t>(std::llround(tensor.bytes)), tensor.formula, tokens});
  }
  const CatalogueTensor& best = found.front();
  std::string message = fmt::format("the request of {} is {} in {}: {}", size, best.name, best.dtype, best.formula);
  if (!exact)
    message = fmt::format("the request of {} would be {} in {} if {}", size, best.name, best.dtype, best.formula);
  if (best.name == "fp32 master shard") {
    message +=
        "; the fp32 master copy of this rank's share is being made on the GPU, so that optimizer offload is not active";
  }
  if (input.model && input.machine && input.machine->device_bytes) {
    const Strategy strategy = input.decisions.over_defaults();
    const MemoryNeed need = input.memory(*input.model, input.training, strategy);
    if (need.device > *input.machine->device_bytes) {
      message += fmt::format("; model states alone need {} of {} ({})", format_size(need.device),
                             format_size(*input.machine->device_bytes), need.largest);
    }
  }
  findings.error("memory", message, best.advice);
}

/// A rank that the kernel killed: exit code -9 or 137, signal 9.
void explain_dead_rank(Findings& findings, const CheckInput& input, const std::string& log) {
  std::string who = "a rank";
  for (const std::string_view words : {"local_rank", "local rank", "rank"}) {
    if (const auto rank = number_after(log, words); rank && *rank >= 0 && *rank < 1e6 && std::floor(*rank) == *rank) {
      who = fmt::format("rank {:.0f}", *rank);
      break;
    }
  }
  std::string message =
      fmt::format("{} was killed by signal 9: the system ran out of host memory (there is no traceback)", who);
  if (input.model) {
    const std::uint64_t ranks = input.training.ranks_per_node();
    const Bytes load = input.model->total() * DType::kFp32 * ranks;
    const Bytes states = input.model->total() * DType::kFp32 * 4;
    message +=
        fmt::format("; loading the whole model in fp32 on each of {} ranks takes {}, offloaded fp32 states {} in all",
                    ranks, format_size(load), format_size(states));
  }
  findings.error("memory", message,
                 "load under zero.Init (or low_cpu_mem_usage) so that only one rank holds the model, set pin_memory to "
                 "false, offload less or to "
                 "nvme, or add host memory");
}

void explain_loss_scale(Findings& findings, CheckReport& report, Workspace* work, const std::string& log) {
  const std::uint64_t steps = report.overflow_steps_until_stop.value_or(*overflow_steps_until_stop(16, 2, 1));
  report.overflow_steps_until_stop = steps;
  const auto stopped = number_after(log, "step ");
  std::string message =
      fmt::format("the loss scale reached its minimum: overflow {} ends a run whose every step overflows", steps);
  if (stopped && std::abs(*stopped - static_cast<double>(steps)) <= 1) {
    message += fmt::format(
        "; stopping at step {:.0f} means that every single step had an overflow: values that are not finite in fp16's "
        "range, not "
        "bad luck",
        *stopped);
  }
  const bool fp16 = work == nullptr || work->flag("fp16.enabled", true);
  findings.error("fp16", message + (fp16 ? "" : " (the file does not turn fp16 on)"),
                 "use bf16 instead of fp16 (or fp32); a larger initial_scale_power only delays the stop");
}

}  // namespace

void explain_error_log(Findings& findings, const CheckInput& input, CheckReport& report, Workspace* work) {
  if (!input.error_log) return;
  const std::string log = lower_case(*input.error_log);
  const auto says = [&log](std::string_view words) { return log.find(words) != std::string::npos; };
  const std::size_t before = findings.all().size();
  const bool killed = says("exitcode: -9") || says("exit code: -9") || says("exitcode -9") ||
                      says("return code = -9") || says("exit code 137") || says("exitcode: 137") ||
                      says("return code -9") || says("exit code -9") || says("code: 137") || says("sigkill") ||
                      says("signal 9") || says("out of memory: killed process") || says("oom-kill");
  if (killed) explain_dead_rank(findings, input, log);
  const bool device_memory = says("out of memory") || says("tried to allocate") || says("outofmemoryerror");
  if (device_memory && !(killed && !says("tried to allocate"))) explain_out_of_memory(findings, input, report, log);
  if (says("loss scale") && says("minimum")) explain_loss_scale(findings, report, work, log);
  report_known_messages(findings, log);
  if (findings.all().size() == before) {
    findings.warning("memory", "the text has no message that is known here",
                     "paste the last lines before the traceback, and those of rank 0");
  }
}

}  // namespace zeroplan::planner::deepspeed
