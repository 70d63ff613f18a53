// Streams, events and graphs of CUDA behind kernels/device.h. Main types: CudaStream, CudaEvent. Depends on operators.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/context.h"
#include "kernels/device.h"

namespace zeroplan::kernels::cuda {

/// \throws Error{kDevice} with the runtime's words
void require(cudaError_t status, const char* what);

class CudaEvent final : public DeviceEvent {
 public:
  explicit CudaEvent(bool keeps_time);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void wait() override;
  double seconds_since(const DeviceEvent& start) const override;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public DeviceStream {
 public:
  /// \param context  of the card; must outlive this
  explicit CudaStream(Context& context);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void enqueue(const DeviceCall& call) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(void* begin, std::byte value, std::size_t bytes) override;
  void fill_words(void* begin, std::uint32_t value, std::size_t words) override;
  void record(DeviceEvent& event) override;
  void wait(DeviceEvent& event) override;
  void synchronize() override;
  void begin_capture() override;
  std::unique_ptr<DeviceGraph> end_capture() override;
  void launch(DeviceGraph& graph) override;
  cudaStream_t get() const { return stream_; }

 private:
  Context& context_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace zeroplan::kernels::cuda
