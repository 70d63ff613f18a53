#include <fmt/format.h>

#include "simulator/states.h"

namespace zeroplan::simulator {
namespace {

constexpr double kBufferFactor = 1.5;  // additional_buffer_factor of both estimators

/// int(x) of a double that holds bytes.
std::uint64_t truncated(double bytes) {
  return static_cast<std::uint64_t>(bytes);
}

DeepspeedRow stage2_row(double params, double gpus, double ranks, bool offload) {
  DeepspeedRow row{.stage = 2, .offload_optimizer = offload, .offload_param = std::nullopt, .zero_init = std::nullopt};
  if (offload) {
    row.gpu_bytes = truncated(2 * params);
    row.cpu_bytes = truncated(params * std::max(4 * ranks, 16.0) * kBufferFactor);
  } else {
    row.gpu_bytes = truncated(2 * params) + truncated(18 * params / ranks);
    row.cpu_bytes = truncated(params * 4 * gpus * kBufferFactor);
  }
  return row;
}

DeepspeedRow stage3_row(double params, double largest, double gpus, double nodes, bool optimizer, bool param,
                        bool zero_init) {
  DeepspeedRow row{.stage = 3, .offload_optimizer = optimizer, .offload_param = param, .zero_init = zero_init};
  const double node_share = 1 / nodes;
  row.gpu_bytes = truncated(4 * largest);
  if (!optimizer) {
    row.gpu_bytes += truncated(18 * params / (gpus * nodes));
    row.cpu_bytes = truncated((zero_init ? largest : params) * 4 * gpus * kBufferFactor);
    return row;
  }
  if (!param) row.gpu_bytes += truncated(2 * params / (gpus * nodes));
  const double share = (param ? 18 : 16) * node_share;
  row.cpu_bytes = truncated(params * (zero_init ? share : std::max(4 * gpus, share)) * kBufferFactor);
  return row;
}

std::string_view device(bool offload) {
  return offload ? "cpu " : "none";
}

}  // namespace

std::vector<DeepspeedRow> deepspeed_table(Elements total, Elements largest, std::uint64_t gpus_per_node,
                                          std::uint64_t nodes) {
  const double p = static_cast<double>(total.count());
  const double l = static_cast<double>(largest.count());
  const double g = static_cast<double>(gpus_per_node);
  const double n = static_cast<double>(nodes);
  std::vector<DeepspeedRow> rows;
  for (const bool offload : {true, false}) rows.push_back(stage2_row(p, g, g * n, offload));
  constexpr std::array<std::array<bool, 2>, 3> kOffloads = {
      {{true, true}, {true, false}, {false, false}}};  // optimizer, parameters
  for (const auto& [optimizer, param] : kOffloads) {
    for (const bool zero_init : {true, false}) rows.push_back(stage3_row(p, l, g, n, optimizer, param, zero_init));
  }
  return rows;
}

std::string deepspeed_table_text(std::uint64_t stage, Elements total, Elements largest, std::uint64_t gpus_per_node,
                                 std::uint64_t nodes) {
  const auto millions = [](Elements n) { return n.count() / 1'000'000; };
  const auto gib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1073741824.0; };
  std::string text = "Estimated memory needed for params, optim states and gradients for a:\n";
  text += fmt::format("HW: Setup with {} node{}, {} GPU{} per node.\n", nodes, nodes > 1 ? "s" : "", gpus_per_node,
                      gpus_per_node > 1 ? "s" : "");
  text += fmt::format("SW: Model with {}M total params", millions(total));
  text += stage == 3 ? fmt::format(", {}M largest layer params.\n", millions(largest)) : ".\n";
  text += "  per CPU  |  per GPU |   Options\n";
  for (const DeepspeedRow& row : deepspeed_table(total, largest, gpus_per_node, nodes)) {
    if (row.stage != stage) continue;
    text += fmt::format(" {:7.2f}GB | {:6.2f}GB | ", gib(row.cpu_bytes), gib(row.gpu_bytes));
    if (row.stage == 3) text += fmt::format("offload_param={}, ", device(*row.offload_param));
    text += fmt::format("offload_optimizer={}", device(row.offload_optimizer));
    if (row.stage == 3) text += fmt::format(", zero_init={}", *row.zero_init ? 1 : 0);
    text += "\n";
  }
  return text;
}

}  // namespace zeroplan::simulator
