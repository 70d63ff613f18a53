#include "kernels/cuda/plugin/streams.h"

#include <fmt/format.h>

#include "kernels/cuda/operators.h"
#include "kernels/cuda/plugin/words.h"
#include "models/core/error.h"

namespace zeroplan::kernels::cuda {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    require(status, "cudaGraphInstantiate");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  cudaGraphExec_t get() const { return executable_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

ElementwiseOptimizer rule_of(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kAdam:
      return ElementwiseOptimizer::kAdam;
    case UpdateRule::kSgd:
      return ElementwiseOptimizer::kSgd;
    case UpdateRule::kLion:
      return ElementwiseOptimizer::kLion;
    case UpdateRule::kAdagrad:
      return ElementwiseOptimizer::kAdagrad;
  }
  throw Error(ErrorCode::kInternal, "unknown update rule");
}

/// Enqueues each kind of call.
struct Enqueue {
  const Launch& launch;

  template <class Operator>
  void operator()(const Operator& args) const {
    cuda::enqueue(args, launch);
  }
  void operator()(const SquaresInto& a) const { enqueue_sum_of_squares(a.squares, a.result, a.adds, launch); }
  void operator()(const FinishNorm& a) const { enqueue_finish_norm(a.scalars, a.partials, a.stride, a.count, launch); }
  void operator()(const SumInOrder& a) const {
    OrderedSum sum;
    static_assert(kMostSummed <= kMaxOrderedInputs);
    sum.dtype = a.dtype;
    sum.count = a.count;
    sum.input_count = a.input_count;
    for (std::size_t i = 0; i < a.input_count; ++i) sum.inputs[i] = a.inputs.at(i);
    sum.out = a.out;
    enqueue_ordered_sum(sum, launch);
  }
  void operator()(const RuleUpdate& a) const { cuda::enqueue(rule_of(a.rule), a.step, launch); }
  void operator()(const LambNormsInto& a) const { enqueue_lamb_norms(a.norms, a.result, a.adds, launch); }
  void operator()(const LambRatios& a) const {
    enqueue_lamb_ratios(a.scalars, a.parts, a.ranks, a.count, a.ratios, launch);
  }
};

}  // namespace

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Error(ErrorCode::kDevice, fmt::format("{}: {}", what, cudaGetErrorString(status)));
}

CudaEvent::CudaEvent(bool keeps_time) {
  require(cudaEventCreateWithFlags(&event_, keeps_time ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
}
CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);
}
void CudaEvent::wait() {
  require(cudaEventSynchronize(event_), "cudaEventSynchronize");
}
double CudaEvent::seconds_since(const DeviceEvent& start) const {
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, static_cast<const CudaEvent&>(start).get(), event_),
          "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

CudaStream::CudaStream(Context& context) : context_(context) {
  require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}
CudaStream::~CudaStream() {
  cudaStreamDestroy(stream_);
}

void CudaStream::enqueue(const DeviceCall& call) {
  const Launch launch{stream_, &context_, call.workspace, call.workspace_bytes};
  std::visit(Enqueue{launch}, call.op);
}
void CudaStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
}
void CudaStream::fill(void* begin, std::byte value, std::size_t bytes) {
  if (bytes > 0) require(cudaMemsetAsync(begin, static_cast<int>(value), bytes, stream_), "cudaMemsetAsync");
}
void CudaStream::fill_words(void* begin, std::uint32_t value, std::size_t words) {
  cuda::fill_words(static_cast<std::uint32_t*>(begin), value, words, stream_);
  require(cudaGetLastError(), "filling device memory");
}
void CudaStream::record(DeviceEvent& event) {
  require(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_), "cudaEventRecord");
}
void CudaStream::wait(DeviceEvent& event) {
  require(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get(), 0), "cudaStreamWaitEvent");
}
void CudaStream::synchronize() {
  require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}
void CudaStream::begin_capture() {
  require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}
std::unique_ptr<DeviceGraph> CudaStream::end_capture() {
  cudaGraph_t graph = nullptr;
  require(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(graph);
}
void CudaStream::launch(DeviceGraph& graph) {
  require(cudaGraphLaunch(static_cast<CudaGraph&>(graph).get(), stream_), "cudaGraphLaunch");
}

}  // namespace zeroplan::kernels::cuda
