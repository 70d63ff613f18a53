// An accelerator as the runtime sees it. Purpose: streams, events, memory and kernel calls behind abstract classes, so
// that nothing but the plug-in library that implements them knows a driver. Main types: Device, DeviceStream,
// DeviceEvent, DeviceGraph, DeviceCall, DevicePlugin. Depends on the argument structs of kernels alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "kernels/adamw.h"
#include "kernels/kernels.h"
#include "kernels/lamb.h"
#include "kernels/optimizers.h"

namespace zeroplan::kernels {

/// *result = (or, with `adds`, +=) the sum of squares.
struct SquaresInto {
  SumOfSquares squares;
  double* result = nullptr;
  bool adds = false;
};

/// finish_norm, then advance_optimizer_step, from `count` sums that lie `stride` doubles apart, added in order.
struct FinishNorm {
  StepScalars* scalars = nullptr;
  const double* partials = nullptr;
  std::size_t stride = 1;
  std::size_t count = 0;
};

/// Most buffers that one ordered sum adds.
constexpr std::size_t kMostSummed = 64;

/// out = inputs[0] + inputs[1] + ..., in this order, in fp32, rounded once.
struct SumInOrder {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  std::size_t input_count = 0;
  std::array<const void*, kMostSummed> inputs = {};
  void* out = nullptr;  ///< may be one of the inputs
};

/// The rules that update element by element, AdamW apart.
enum class UpdateRule { kAdam, kSgd, kLion, kAdagrad };
struct RuleUpdate {
  UpdateRule rule = UpdateRule::kAdam;
  OptimizerStep step;
};

/// *result = (or, with `adds`, +=) the sums of a part of a tensor.
struct LambNormsInto {
  LambNorms norms;
  LambSums* result = nullptr;
  bool adds = false;
};

/// ratios[p] = lamb_ratio of the sum over r, in order, of parts[r x count + p].
struct LambRatios {
  const StepScalars* scalars = nullptr;
  const LambSums* parts = nullptr;
  std::size_t ranks = 0;
  std::size_t count = 0;
  double* ratios = nullptr;
};

/// One kernel call; all pointers are device pointers.
using DeviceOp = std::variant<EmbeddingForward, EmbeddingBackward, LayerNormForward, LayerNormBackward, RmsNormForward,
                              RmsNormBackward, LinearForward, LinearBackwardInput, LinearBackwardWeight, Rotary,
                              AttentionForward, AttentionBackward, GeluForward, GeluBackward, GatedSiluForward,
                              GatedSiluBackward, Add, Copy, CrossEntropy, LossSum, SquaresInto, FinishNorm, SumInOrder,
                              AdamW, RuleUpdate, LambMoments, LambNormsInto, LambRatios, LambUpdate>;

/// With the scratch memory that the plan gives it.
struct DeviceCall {
  DeviceOp op;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

/// A point of a stream's work.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Blocks the calling thread until the point last recorded was reached. \throws Error{kDevice}
  virtual void wait() = 0;
  /// Seconds between two points that were reached; both events must keep times.
  virtual double seconds_since(const DeviceEvent& start) const = 0;
};

/// Work that was captured once and is launched as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

/// An in-order queue. Calls return before the work is done and allocate no device memory. \throws Error{kDevice,
/// kUnsupported}
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual void enqueue(const DeviceCall& call) = 0;
  /// Between any two of device and host memory that the device allocated.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill(void* begin, std::byte value, std::size_t bytes) = 0;
  /// So many 32-bit words.
  virtual void fill_words(void* begin, std::uint32_t value, std::size_t words) = 0;
  virtual void record(DeviceEvent& event) = 0;
  /// What is enqueued from now on waits for the point last recorded.
  virtual void wait(DeviceEvent& event) = 0;
  /// Blocks the calling thread until all work was done.
  virtual void synchronize() = 0;
  /// Between the two nothing is done: work of this stream, and of streams that wait for its events, is kept. Other
  /// streams must have been waited for before the end.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<DeviceGraph> end_capture() = 0;
  virtual void launch(DeviceGraph& graph) = 0;
};

/// Of the whole card, as its driver sees it.
struct DeviceMemory {
  std::size_t free = 0;
  std::size_t total = 0;
};

/// What was found.
struct DeviceDescription {
  std::string name;  ///< "NVIDIA H200"
  int capability_major = 0;
  int capability_minor = 0;
  int driver_version = 0;  ///< 13000: the newest runtime that the driver serves
  int runtime_version = 0;
  std::string matrix_library;     ///< "cuBLASLt 13.1"
  std::string attention_library;  ///< "cuDNN 9.19.0", or why there is none
  bool has_attention_library = false;
};

/// One card. One thread at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceDescription& description() const = 0;
  /// Binds the calling thread to this card: before any other call of that thread.
  virtual void make_current() = 0;
  virtual DeviceMemory memory() const = 0;
  /// Of the card at the moment when the device was opened and nothing but the driver's context lay on it.
  virtual DeviceMemory memory_at_start() const = 0;
  /// \throws Error{kDoesNotFit}
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* device_memory) noexcept = 0;
  /// Pinned memory of the host. \throws Error{kDoesNotFit}
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void release_host(void* host_memory) noexcept = 0;
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;
  virtual std::unique_ptr<DeviceEvent> make_event(bool keeps_time) = 0;
  /// How many 32-bit words equal `value`. Waits for the device.
  virtual std::size_t count_words(const void* begin, std::uint32_t value, std::size_t words) = 0;
  /// Chooses algorithms for calls of this shape, so that enqueuing them neither searches nor allocates.
  virtual void prepare(const DeviceCall& call) = 0;
  /// Scratch that a call of this shape asks for.
  virtual std::size_t workspace_bytes(const DeviceOp& op) const = 0;
};

struct DeviceOptions {
  int index = 0;            ///< of the card
  bool allow_tf32 = false;  ///< fp32 matrix products may round their operands
  bool use_cudnn = true;    ///< attention through cuDNN where it is found
};

/// Raised with every change of what this header declares.
constexpr std::uint32_t kDeviceAbi = 1;
/// The one symbol that a plug-in library exports: `extern "C" const DevicePlugin* zeroplan_device_plugin()`.
constexpr const char* kDevicePluginSymbol = "zeroplan_device_plugin";

/// Plain data, so that a library of another build can be told by its first members.
struct DevicePlugin {
  std::uint32_t abi = kDeviceAbi;
  std::uint32_t call_bytes = sizeof(DeviceCall);
  const char* version = "";
  /// \throws Error{kDevice}: no card, or a driver that is too old
  std::unique_ptr<Device> (*open)(const DeviceOptions& options) = nullptr;
};
using DevicePluginFunction = const DevicePlugin* (*)();

}  // namespace zeroplan::kernels
