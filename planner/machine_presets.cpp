// Presets of machines and the MACHINE argument of the command line. Rates are of data sheets, lowered to what
// transformer training sustains where a published measurement says so; none was measured by this project unless stated.
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "models/core/cores.h"
#include "models/core/text.h"
#include "planner/machine.h"

namespace zeroplan::planner {
namespace {

constexpr double kGiB = 1073741824.0;

struct Card {
  std::string_view name;
  double memory_gib;  ///< as the driver states it
  double context_mib;
  double bf16_tflops;  ///< sustained in large matrix products
  double fp32_tflops;
  double memory_gb_s;  ///< sustained
  double pcie_gb_s;    ///< one direction
  double duplex_gb_s;
  double link_gb_s;     ///< per rank, one direction, within the node
  double network_gb_s;  ///< per rank, one direction, between nodes
  double kernel_us;
};

// H200: PyTorch 2.11 on the card (matrix products 600 to 800 TFLOP/s, 4.2 TB/s, PCIe 54 and 95 GB/s); others: data
// sheets.
constexpr std::array<Card, 7> kCards = {{{"h200", 139.8, 751, 700, 52, 4200, 54.3, 94.7, 340, 45, 4},
                                         {"h100", 79.6, 650, 650, 51, 2900, 54, 94, 340, 45, 4},
                                         {"a100-80g", 79.2, 450, 260, 18, 1750, 24, 42, 230, 22, 4},
                                         {"a100-40g", 39.4, 450, 260, 18, 1350, 24, 42, 230, 22, 4},
                                         {"v100-32g", 31.7, 400, 95, 14, 800, 12, 21, 125, 11, 5},
                                         {"rtx4090", 23.6, 450, 150, 70, 900, 24, 42, 12, 10, 4},
                                         {"rtx3090", 23.6, 400, 65, 32, 850, 24, 42, 12, 10, 4}}};

Machine machine_of(const Card& card) {
  Machine m;
  m.name = std::string(card.name);
  m.is_gpu = true;
  m.device_bytes = Bytes(static_cast<std::uint64_t>(card.memory_gib * kGiB));
  m.context_bytes = Bytes(static_cast<std::uint64_t>(card.context_mib * 1048576.0));
  m.rates.bf16_flops = FlopsPerSecond(card.bf16_tflops * 1e12);
  m.rates.fp32_flops = FlopsPerSecond(card.fp32_tflops * 1e12);
  m.rates.device_bytes = BytesPerSecond(card.memory_gb_s * 1e9);
  m.rates.h2d_bytes = BytesPerSecond(card.pcie_gb_s * 1e9);
  m.rates.d2h_bytes = BytesPerSecond(card.pcie_gb_s * 1e9);
  m.rates.duplex_bytes = BytesPerSecond(card.duplex_gb_s * 1e9);
  m.rates.link_bytes = BytesPerSecond(card.link_gb_s * 1e9);
  m.rates.network_bytes = BytesPerSecond(card.network_gb_s * 1e9);
  m.rates.host_bytes = BytesPerSecond(200e9);
  m.rates.disk_read_bytes = BytesPerSecond(6e9);
  m.rates.disk_write_bytes = BytesPerSecond(3e9);
  m.rates.host_adam_params = ElementsPerSecond(4e9);
  m.latencies = {.kernel = Seconds(card.kernel_us * 1e-6),
                 .task = Seconds(0),
                 .collective = Seconds(15e-6),
                 .network = Seconds(30e-6),
                 .disk = Seconds(100e-6)};
  return m;
}

/// A small server without a GPU: conservative round figures; `calibrate` measures the real ones.
Machine cpu_machine() {
  Machine m;
  m.name = "cpu";
  m.rates.fp32_flops = FlopsPerSecond(60e9);
  m.rates.bf16_flops = FlopsPerSecond(60e9);
  m.rates.device_bytes = BytesPerSecond(15e9);
  m.rates.host_bytes = BytesPerSecond(15e9);
  m.rates.h2d_bytes = BytesPerSecond(0);
  m.rates.link_bytes = BytesPerSecond(5e9);
  m.rates.network_bytes = BytesPerSecond(1e9);
  m.rates.disk_read_bytes = BytesPerSecond(1e9);
  m.rates.disk_write_bytes = BytesPerSecond(0.5e9);
  m.rates.host_adam_params = ElementsPerSecond(0.4e9);
  m.latencies = {.kernel = Seconds(2e-6),
                 .task = Seconds(10e-6),
                 .collective = Seconds(20e-6),
                 .network = Seconds(50e-6),
                 .disk = Seconds(200e-6)};
  return m;
}

std::optional<Machine> preset(std::string_view name) {
  for (const Card& card : kCards) {
    if (card.name == name) return machine_of(card);
  }
  if (name == "cpu") return cpu_machine();
  return std::nullopt;
}

/// This host: a CPU machine with the memory that the system states.
Machine local_machine() {
  Machine m = cpu_machine();
  m.name = "local";
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0) m.host_bytes = Bytes(static_cast<std::uint64_t>(pages)) * static_cast<std::uint64_t>(page);
  m.cores = usable_cores();
  const double cores = static_cast<double>(m.cores);
  m.rates.fp32_flops = FlopsPerSecond(m.rates.fp32_flops.per_second() * cores / 2);
  return m;
}

void apply_item(Machine& m, const std::string& item, const std::string& text) {
  const std::size_t equals = item.find('=');
  const std::string key = item.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
  const std::string what = "--machine " + key;
  if (key == "gpus") {
    m.gpus = parse_count(value, what);
  } else if (key == "nodes") {
    m.nodes = parse_count(value, what);
  } else if (key == "gpu") {
    m.device_bytes = parse_size(value, what);
  } else if (key == "host") {
    m.host_bytes = parse_size(value, what);
  } else if (key == "disk") {
    m.disk_bytes = parse_size(value, what);
  } else {
    throw Error(ErrorCode::kUsage, fmt::format("--machine {}: {} is no preset, file or item", text, item))
        .at({.key = "--machine", .value = text})
        .hint(fmt::format("presets: {}; items: gpus=, gpu=, host=, disk=, nodes=",
                          fmt::join(machine_preset_names(), ", ")));
  }
}

}  // namespace

std::vector<std::string> machine_preset_names() {
  std::vector<std::string> names;
  for (const Card& card : kCards) names.emplace_back(card.name);
  names.emplace_back("cpu");
  return names;
}

Machine parse_machine(const std::string& text) {
  std::vector<std::string> items = split(text, ',');
  if (items.empty())
    throw Error(ErrorCode::kUsage, "--machine: expected a preset, a file or items such as gpus=8,gpu=24GiB");
  Machine m;
  const std::string first = items.front();
  if (auto known = preset(first)) {
    m = *std::move(known);
    items.erase(items.begin());
  } else if (first == "local") {
    m = local_machine();
    items.erase(items.begin());
  } else if (first.find('=') == std::string::npos || std::filesystem::exists(first)) {
    if (!std::filesystem::exists(first)) apply_item(m, first, text);
    const Json document = read_json_file(first);
    m = Machine::from_json(JsonView(document, first));
    items.erase(items.begin());
  }
  for (const std::string& item : items) apply_item(m, item, text);
  m.validate();
  return m;
}

}  // namespace zeroplan::planner
