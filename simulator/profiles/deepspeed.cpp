// One rank of DeepSpeed's ZeRO optimizers (0.19): flat buffers at stages 1 and 2, per-parameter shards at stage 3.
// Sizes and lifetimes: stage_1_and_2.py and stage3.py of DeepSpeed, read and restated; units stand for its modules.
#include <algorithm>

#include "simulator/profiles/framework.h"

namespace zeroplan::simulator {
namespace {

class Deepspeed : public FrameworkProfile {
 public:
  Deepspeed(EagerTape& tape, const EagerModel& model, const ProfileRequest& request)
      : FrameworkProfile(tape, model, request), ranks_(request.spec.gpus), stage_(request.strategy.stage) {
    dtype_ = planner::compute_dtype(request.spec.precision);
    has_master_ = planner::has_master_weights(request.spec.precision);
    offload_optimizer_ = stage_ >= 1 && request.strategy.offload_optimizer.any();
    offload_param_ = stage_ == 3 && request.strategy.offload_param.any();
    gathered_.resize(model.unit_count());
  }

  void load() override {
    std::uint64_t trained_shards = 0, sub_group = 0;
    for (ParameterId id = 0; id < tape_.parameter_count(); ++id) {
      const GraphParameter& p = tape_.parameter(id);
      const std::uint64_t piece = stage_ == 3 ? divide_up(p.elements, ranks_) : p.elements;
      largest_ = std::max(largest_, p.elements);
      if (p.trained) {
        trained_elements_ += p.elements;
        trained_shards += piece;
        // A parameter that makes a sub-group large enough still belongs to it.
        sub_group += piece;
        largest_sub_group_ = std::max(largest_sub_group_, sub_group);
        if (sub_group >= request_.strategy.sub_group_size) sub_group = 0;
      } else if (!offload_param_) {
        kept_.push_back(tape_.make(piece, dtype_, kFrozenWeights));
      }
    }
    const std::uint64_t alignment = 2 * ranks_;  // flat buffers of stages 1 and 2
    flat_ = stage_ == 3 ? trained_shards : round_up(Elements(trained_elements_), alignment).count();
    share_ = stage_ == 3 ? trained_shards : stage_ == 0 ? flat_ : flat_ / ranks_;
    if (!offload_param_) kept_.push_back(tape_.make(flat_, dtype_, kWeights));
    if (has_master_ && !offload_optimizer_) kept_.push_back(tape_.make(share_, DType::kFp32, kMasterWeights));
    if (stage_ == 3) {
      const std::uint64_t bucket = request_.strategy.reduce_bucket_size;
      if (!offload_optimizer_) kept_.push_back(tape_.make(share_, dtype_, kShardedGradients));
      kept_.push_back(tape_.make(bucket, dtype_, kReduceBuffers));
    } else if (offload_optimizer_) {
      kept_.push_back(tape_.make(largest_, dtype_, kStagingBuffers));
    }
  }

  void before_forward(std::size_t unit) override { fetch(unit, true); }
  void after_forward(std::size_t unit) override {
    if (stage_ < 3) return;
    // what the backward pass needs within max_reuse_distance stays
    std::uint64_t ahead = 0;
    for (std::size_t later = unit + 1; later < gathered_.size(); ++later) ahead += 2 * elements_of(later);
    if (ahead > request_.strategy.max_reuse_distance) gathered_[unit].clear();
  }
  void before_backward(std::size_t unit) override { fetch(unit, false); }
  void after_backward(std::size_t unit) override { gathered_[unit].clear(); }

  void gradient_ready(ParameterId id) override {
    if (stage_ == 0) return;
    const std::uint64_t bucket = request_.strategy.reduce_bucket_size;
    GraphParameter& p = tape_.parameter(id);
    if (stage_ < 3 && buckets_.empty()) {  // allocated at the first gradient of each backward pass
      buckets_.push_back(tape_.make(bucket, dtype_, kReduceBuffers));
    }
    if (stage_ == 1) return;
    filled_ += p.elements;
    if (filled_ > bucket) {  // a reduction copies what the bucket held
      const Tensor copy = tape_.make(std::min(filled_, bucket), dtype_, kReduceBuffers);
      filled_ = p.elements;
    }
    p.grad = {};
    if (stage_ == 2 && !offload_optimizer_)
      own_gradients_.push_back(tape_.make(divide_up(p.elements, ranks_), dtype_, kShardedGradients));
  }
  void end_backward() override {
    buckets_.clear();
    filled_ = 0;
    for (auto& unit : gathered_) unit.clear();
  }

  void step(bool first) override {
    if (offload_optimizer_) return;
    const std::uint64_t moments = planner::moment_count(request_.spec.optimizer);
    const DType moment = planner::moment_dtype(request_.spec.precision);
    if (first) {
      for (std::uint64_t m = 0; m < moments; ++m) states_.push_back(tape_.make(share_, moment, kOptimizerStates));
    }
    const std::uint64_t group = stage_ == 3 ? largest_sub_group_ : share_;
    if (!has_master_) return;
    // Stages 1 and 2 flatten the gradients of a group; all turn it into fp32.
    const Tensor flat = stage_ == 3 ? Tensor() : tape_.make(group, dtype_, kOptimizerTemporaries);
    const Tensor wide = tape_.make(group, DType::kFp32, kOptimizerTemporaries);
    if (stage_ == 3 && request_.spec.optimizer_impl == planner::OptimizerImplementation::kForeach) {
      // torch.optim's square roots of the second moments; at stages 1 and 2 in the place of flat and 16-bit gradients
      const Tensor roots = tape_.make(group, DType::kFp32, kOptimizerTemporaries);
    }
  }
  void zero_gradients() override {
    FrameworkProfile::zero_gradients();
    own_gradients_.clear();
  }

 private:
  std::uint64_t elements_of(std::size_t unit) const {
    std::uint64_t n = 0;
    for (const ParameterId id : model_.unit_parameters(unit)) n += tape_.parameter(id).elements;
    return n;
  }
  void gather(std::size_t unit) {
    if (!gathered_[unit].empty()) return;
    for (const ParameterId id : model_.unit_parameters(unit)) {
      const std::uint64_t padded = divide_up(tape_.parameter(id).elements, ranks_) * ranks_;
      if (ranks_ > 1 || offload_param_) gathered_[unit].push_back(tape_.make(padded, dtype_, kGathered));
    }
  }
  /// The unit itself, and the next one within the prefetch bucket.
  void fetch(std::size_t unit, bool forward) {
    if (stage_ < 3) return;
    gather(unit);
    const bool has_next = forward ? unit + 1 < gathered_.size() : unit > 0;
    const std::size_t next = forward ? unit + 1 : unit - 1;
    if (has_next && elements_of(next) <= request_.strategy.prefetch_bucket_size) gather(next);
  }

  std::uint64_t ranks_;
  std::uint64_t stage_;
  DType dtype_ = DType::kBf16;
  bool has_master_ = true;
  bool offload_optimizer_ = false;
  bool offload_param_ = false;
  std::uint64_t trained_elements_ = 0;
  std::uint64_t flat_ = 0;
  std::uint64_t share_ = 0;
  std::uint64_t largest_ = 0;
  std::uint64_t largest_sub_group_ = 0;  ///< elements of a rank's shards, stage 3
  std::uint64_t filled_ = 0;
  std::vector<Tensor> kept_;
  std::vector<Tensor> buckets_;
  std::vector<Tensor> own_gradients_;
  std::vector<std::vector<Tensor>> gathered_;
};

}  // namespace

std::unique_ptr<FrameworkProfile> make_deepspeed(EagerTape& tape, const EagerModel& model,
                                                 const ProfileRequest& request) {
  return std::make_unique<Deepspeed>(tape, model, request);
}

}  // namespace zeroplan::simulator
