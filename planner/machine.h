// Budgets and rates of the machine that a plan is made for (interface.md sections 1 and 9). Main types: MachineRates,
// MachineLatencies, Machine. Depends on models/core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/json.h"
#include "models/core/units.h"

namespace zeroplan::planner {

/// One measured matrix product: C[m,n] = A[m,k] B[k,n].
struct GemmPoint {
  DType dtype = DType::kFp32;
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t ranks = 1;  ///< of a node that multiplied at once; `flops` is of one of them
  FlopsPerSecond flops;
  friend bool operator==(const GemmPoint&, const GemmPoint&) = default;
};

/// One measured kernel of the CPU back end, or one loopback collective.
struct OpPoint {
  std::string op;              ///< "rms_norm_forward", "adamw", "all_gather": see planner/cost_model.h
  DType dtype = DType::kFp32;  ///< of activations; of optimizers: of the gradient
  std::uint64_t ranks = 1;     ///< of a node that ran it at once, each with cores / ranks threads
  std::uint64_t work = 1;      ///< elements; of a collective: bytes of the whole buffer
  std::uint64_t width = 1;     ///< of a row, or of a head
  std::uint64_t depth = 1;     ///< attention: tokens of a sequence
  Seconds time;
  friend bool operator==(const OpPoint&, const OpPoint&) = default;
};

/// Sustained rates; a rate that is not known is 0.
struct MachineRates {
  FlopsPerSecond bf16_flops;
  FlopsPerSecond fp32_flops;
  std::vector<GemmPoint> gemm;
  std::vector<OpPoint> cpu_ops;
  BytesPerSecond device_bytes;  ///< device memory, read and write together
  BytesPerSecond h2d_bytes;
  BytesPerSecond d2h_bytes;
  BytesPerSecond duplex_bytes;   ///< both directions at once, in sum
  BytesPerSecond link_bytes;     ///< between ranks of a node, one direction
  BytesPerSecond network_bytes;  ///< between nodes, per rank, one direction
  BytesPerSecond host_bytes;     ///< host memory
  BytesPerSecond disk_read_bytes;
  BytesPerSecond disk_write_bytes;
  ElementsPerSecond host_adam_params;
  friend bool operator==(const MachineRates&, const MachineRates&) = default;
};

/// Fixed costs of starting something.
struct MachineLatencies {
  Seconds kernel;
  Seconds task;  ///< CPU: from the end of a task to the start of one on another lane that waits for it
  Seconds collective;
  Seconds network;
  Seconds disk;
  friend bool operator==(const MachineLatencies&, const MachineLatencies&) = default;
};

/// Who measured the rates; absent: a data sheet.
struct Measured {
  std::string date;
  std::string command;
  friend bool operator==(const Measured&, const Measured&) = default;
};

/// Device figures are of one card, host and disk of one node. A budget that is absent has no limit.
struct Machine {
  std::string name = "custom";
  std::uint64_t gpus = 1;  ///< over all nodes
  std::uint64_t nodes = 1;
  std::uint64_t cores = 0;  ///< of one node, for the CPU back end; 0: unknown
  bool is_gpu = false;      ///< states a GPU's rates, so that plans are for CUDA unless told otherwise
  std::optional<Bytes> device_bytes;
  Bytes context_bytes;  ///< taken on each card by the driver and libraries
  std::optional<Bytes> host_bytes;
  std::optional<Bytes> disk_bytes;
  MachineRates rates;
  MachineLatencies latencies;
  std::optional<Measured> measured;
  friend bool operator==(const Machine&, const Machine&) = default;

  /// \throws Error{kInvalidInput} for no GPUs, nodes that do not divide them, rates that are negative or not finite.
  void validate() const;
  Json to_json() const;
  static Machine from_json(const JsonView& view);
};

/// MACHINE of the command line: a preset, a file, `local`, or items such as `gpus=8,gpu=24GiB`, also after a preset.
/// \throws Error{kUsage, kInvalidInput, kIo}
Machine parse_machine(const std::string& text);

/// Names of the presets, for messages and for "what fits where".
std::vector<std::string> machine_preset_names();

}  // namespace zeroplan::planner
