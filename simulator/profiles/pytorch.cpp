// One process of PyTorch, alone or in DistributedDataParallel.
#include <algorithm>

#include "simulator/profiles/framework.h"

namespace zeroplan::simulator {

void FrameworkProfile::zero_gradients() {
  for (ParameterId id = 0; id < tape_.parameter_count(); ++id) tape_.parameter(id).grad = {};
}

void FrameworkProfile::torch_update(const std::vector<std::uint64_t>& elements, DType dtype, bool first) {
  const planner::TrainingSpec& spec = request_.spec;
  const std::uint64_t moments = planner::moment_count(spec.optimizer);
  const bool fused = spec.optimizer_impl == planner::OptimizerImplementation::kFused;
  if (first) {
    for (const std::uint64_t n : elements) {
      if (fused)
        states_.push_back(tape_.make(1, DType::kFp32, kOptimizerStates));  // the step count lives on the device
      if (spec.optimizer == planner::OptimizerKind::kAdafactor || spec.optimizer == planner::OptimizerKind::kAdamW8bit)
        continue;
      for (std::uint64_t m = 0; m < moments; ++m) states_.push_back(tape_.make(n, dtype, kOptimizerStates));
    }
  }
  if (spec.optimizer_impl == planner::OptimizerImplementation::kForeach) {
    std::vector<Tensor> roots;  // the square roots of all second moments at once
    for (const std::uint64_t n : elements) roots.push_back(tape_.make(n, dtype, kOptimizerTemporaries));
  } else if (spec.optimizer_impl == planner::OptimizerImplementation::kLoop) {
    for (const std::uint64_t n : elements) {
      const Tensor root = tape_.make(n, dtype, kOptimizerTemporaries);
      const Tensor denominator = tape_.make(n, dtype, kOptimizerTemporaries);
    }
  }
}

namespace {

constexpr std::uint64_t kDdpBucketBytes = std::uint64_t{25} << 20;
constexpr std::uint64_t kDdpFirstBucketBytes = std::uint64_t{1} << 20;

class Pytorch : public FrameworkProfile {
 public:
  using FrameworkProfile::FrameworkProfile;

  void load() override {
    for (ParameterId id = 0; id < tape_.parameter_count(); ++id) {
      const GraphParameter& p = tape_.parameter(id);
      weights_.push_back(weight(id, p));
      if (p.trained) trained_.push_back(id);
    }
    if (request_.spec.framework == planner::Framework::kDdp) make_buckets();
  }

  void step(bool first) override {
    const planner::OptimizerKind kind = request_.spec.optimizer;
    const DType dtype = planner::moment_dtype(request_.spec.precision);
    if (first && (kind == planner::OptimizerKind::kAdafactor || kind == planner::OptimizerKind::kAdamW8bit)) {
      for (const ParameterId id : trained_) {
        const std::uint64_t bytes = moment_bytes(model_.shape(id), kind, dtype).count();
        states_.push_back(tape_.make(bytes, DType::kUint8, kOptimizerStates));
      }
    }
    std::vector<std::uint64_t> elements;
    for (const ParameterId id : trained_) elements.push_back(tape_.parameter(id).elements);
    torch_update(elements, trained_.empty() ? DType::kFp32 : tape_.parameter(trained_.front()).dtype, first);
  }

 private:
  Tensor weight(ParameterId id, const GraphParameter& p) {
    if (id < request_.trained.quantised.size() && request_.trained.quantised[id]) {
      const std::uint64_t bytes = quantised_bytes(Elements(p.elements), model_.shape(id), request_.spec.quant).count();
      return tape_.make(bytes, DType::kUint8, kFrozenWeights);
    }
    return tape_.make(p.elements, p.dtype, p.trained ? kWeights : kFrozenWeights);
  }

  /// Gradients are copied into buckets of 25 MiB, the first one of 1 MiB, in reverse order of the parameters.
  void make_buckets() {
    std::uint64_t limit = kDdpFirstBucketBytes;
    std::uint64_t filled = 0;
    DType dtype = DType::kFp32;
    for (auto it = trained_.rbegin(); it != trained_.rend(); ++it) {
      dtype = tape_.parameter(*it).dtype;
      filled += tape_.parameter(*it).elements;
      if (filled * zeroplan::size_of(dtype) < limit) continue;
      buckets_.push_back(tape_.make(filled, dtype, kReduceBuffers));
      filled = 0;
      limit = kDdpBucketBytes;
    }
    if (filled > 0) buckets_.push_back(tape_.make(filled, dtype, kReduceBuffers));
  }

  std::vector<Tensor> weights_;
  std::vector<Tensor> buckets_;
  std::vector<ParameterId> trained_;
};

}  // namespace

std::unique_ptr<FrameworkProfile> make_pytorch(EagerTape& tape, const EagerModel& model,
                                               const ProfileRequest& request) {
  return std::make_unique<Pytorch>(tape, model, request);
}

}  // namespace zeroplan::simulator
