// A card behind kernels/device.h. Main type: CudaDevice. Depends on streams and operators.
#pragma once

#include "kernels/cuda/plugin/streams.h"

namespace zeroplan::kernels::cuda {

/// Opens card `options.index` and its libraries.
class CudaDevice final : public Device {
 public:
  /// \throws Error{kDevice}: no card, a driver older than this library's runtime, a card that is too old
  explicit CudaDevice(const DeviceOptions& options);

  const DeviceDescription& description() const override { return description_; }
  void make_current() override;
  DeviceMemory memory() const override;
  DeviceMemory memory_at_start() const override { return memory_at_start_; }
  void* allocate(std::size_t bytes) override;
  void release(void* device_memory) noexcept override;
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* host_memory) noexcept override;
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<CudaStream>(*context_); }
  std::unique_ptr<DeviceEvent> make_event(bool keeps_time) override { return std::make_unique<CudaEvent>(keeps_time); }
  std::size_t count_words(const void* begin, std::uint32_t value, std::size_t words) override;
  void prepare(const DeviceCall& call) override;
  std::size_t workspace_bytes(const DeviceOp& op) const override;

 private:
  void describe();

  int index_;
  DeviceDescription description_;
  DeviceMemory memory_at_start_;
  std::unique_ptr<Context> context_;
};

}  // namespace zeroplan::kernels::cuda
