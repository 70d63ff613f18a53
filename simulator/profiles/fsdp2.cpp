// fully_shard on every block and on the root, as PyTorch 2.11 runs it: one group per block, one for all the rest.
// Rules: all-gather output and its input on a stream of their own, per-parameter copies after it, the output kept until
// the next group's copies are made; reductions hold their input until the next group's gradients are ready.
#include <algorithm>

#include "simulator/profiles/framework.h"

namespace zeroplan::simulator {
namespace {

constexpr StreamId kGatherStream = 1;
constexpr StreamId kReduceStream = 2;

class Fsdp2 : public FrameworkProfile {
 public:
  Fsdp2(EagerTape& tape, const EagerModel& model, const ProfileRequest& request)
      : FrameworkProfile(tape, model, request) {
    const planner::TrainingSpec& spec = request.spec;
    ranks_ = spec.gpus;
    shard_dtype_ = spec.precision == planner::Precision::kBf16 ? DType::kBf16 : DType::kFp32;
    compute_dtype_ = planner::compute_dtype(spec.precision);
    reduce_dtype_ =
        compute_dtype_ == DType::kFp32 || spec.reduce_dtype == planner::ReduceType::kFp32 ? DType::kFp32 : DType::kBf16;
    if (spec.precision == planner::Precision::kBf16) reduce_dtype_ = DType::kBf16;
    offload_ = request.strategy.offload_param.any();
    group_of_.resize(model.unit_count());
    groups_.emplace_back();  // the root
    for (std::size_t unit = 0; unit < model.unit_count(); ++unit) {
      const bool block = request.model.units[unit].kind == models::UnitKind::kBlock;
      group_of_[unit] = block ? groups_.size() : 0;
      if (block) groups_.emplace_back();
      Group& g = groups_[group_of_[unit]];
      for (const ParameterId id : model.unit_parameters(unit)) g.parameters.push_back(id);
    }
  }

  void load() override {
    for (Group& g : groups_) {
      for (const ParameterId id : g.parameters) {
        g.padded += local(id) * ranks_;
        const bool trained = tape_.parameter(id).trained;
        if (trained) shard_elements_.push_back(local(id));
        if (!offload_) weights_.push_back(tape_.make(local(id), shard_dtype_, trained ? kWeights : kFrozenWeights));
      }
    }
  }

  void before_forward(std::size_t unit) override {
    if (!root_ready_) {
      root_ready_ = true;
      unshard(groups_[0], true);
    }
    if (group_of_[unit] != 0) unshard(groups_[group_of_[unit]], true);
  }
  void after_forward(std::size_t unit) override {
    if (group_of_[unit] != 0 && request_.spec.reshard) reshard(groups_[group_of_[unit]]);
    if (unit + 1 < group_of_.size()) return;
    gathered_ = {};
    if (request_.spec.reshard) reshard(groups_[0]);
  }

  void begin_backward() override {
    unshard(groups_[0], false);
    if (groups_.size() > 1) prefetch(groups_.size() - 1);
  }
  void before_backward(std::size_t unit) override {
    const std::size_t group = group_of_[unit];
    if (group == 0) return;
    unshard(groups_[group], false);
    if (group > 1) prefetch(group - 1);
  }
  void after_backward(std::size_t unit) override {
    if (group_of_[unit] != 0) reduce(groups_[group_of_[unit]]);
  }
  void end_backward() override {
    for (std::size_t g = groups_.size(); g-- > 0;) reduce(groups_[g]);  // the root, and what no hook has taken
    reduce_input_ = {};
    gathered_ = {};
    root_ready_ = false;
  }

  void step(bool first) override {
    if (!offload_) torch_update(shard_elements_, shard_dtype_, first);
  }
  void zero_gradients() override {
    FrameworkProfile::zero_gradients();
    gradients_.clear();
  }

 private:
  struct Group {
    std::vector<ParameterId> parameters;
    std::uint64_t padded = 0;       ///< elements of all ranks' shares
    Tensor gathering;               ///< all-gather output that was prefetched
    std::vector<Tensor> unsharded;  ///< per-parameter copies
    bool reduced = false;
  };

  /// Rows of the first extent are divided; every rank's share is padded to the largest.
  std::uint64_t local(ParameterId id) const {
    const Shape& shape = model_.shape(id);
    const std::uint64_t n = shape.elements().count();
    if (shape.rank() == 0 || shape[0] == 0) return n;
    return divide_up(shape[0], ranks_) * (n / shape[0]);
  }

  Tensor gather(const Group& g) {
    std::vector<Tensor> inputs;
    if (offload_) {  // each shard comes from the host, then is cast
      for (const ParameterId id : g.parameters) {
        inputs.push_back(tape_.make(local(id), shard_dtype_, kGatherBuffers, kGatherStream));
        if (compute_dtype_ == shard_dtype_) continue;
        inputs.back() = tape_.make(local(id), compute_dtype_, kGatherBuffers, kGatherStream);
      }
    } else if (compute_dtype_ != shard_dtype_) {  // one flat cast of all shards
      inputs.push_back(tape_.make(g.padded / ranks_, compute_dtype_, kGatherBuffers, kGatherStream));
    }
    return tape_.make(g.padded, compute_dtype_, kGatherBuffers, kGatherStream);
  }
  void prefetch(std::size_t group) {
    Group& g = groups_[group];
    if (g.unsharded.empty() && !g.gathering.defined()) g.gathering = gather(g);
  }
  void unshard(Group& g, bool forward) {
    g.reduced = false;
    if (!g.unsharded.empty()) return;
    Tensor output = g.gathering.defined() ? std::move(g.gathering) : gather(g);
    g.gathering = {};
    for (const ParameterId id : g.parameters) {
      g.unsharded.push_back(tape_.make(local(id) * ranks_, compute_dtype_, kGathered));
    }
    gathered_ = {};  // in forward the output lives until the next group's copies have been made
    if (forward) gathered_ = std::move(output);
  }
  void reshard(Group& g) { g.unsharded.clear(); }

  void reduce(Group& g) {
    if (g.reduced) return;
    g.reduced = true;
    reshard(g);
    reduce_input_ = {};
    std::uint64_t elements = 0;
    for (const ParameterId id : g.parameters) {
      if (tape_.parameter(id).grad.defined()) elements += local(id) * ranks_;
    }
    if (elements == 0) return;
    Tensor input = tape_.make(elements, reduce_dtype_, kReduceBuffers);
    for (const ParameterId id : g.parameters) tape_.parameter(id).grad = {};
    Tensor output = tape_.make(elements / ranks_, reduce_dtype_, kShardedGradients, kReduceStream);
    if (reduce_dtype_ != shard_dtype_)
      output = tape_.make(elements / ranks_, shard_dtype_, kShardedGradients, kReduceStream);
    if (!offload_) gradients_.push_back(std::move(output));
    reduce_input_ = std::move(input);
  }

  std::uint64_t ranks_ = 1;
  DType shard_dtype_ = DType::kFp32;
  DType compute_dtype_ = DType::kBf16;
  DType reduce_dtype_ = DType::kFp32;
  bool offload_ = false;
  bool root_ready_ = false;
  std::vector<std::size_t> group_of_;
  std::vector<Group> groups_;
  std::vector<Tensor> weights_;
  std::vector<Tensor> gradients_;
  std::vector<std::uint64_t> shard_elements_;
  Tensor gathered_;
  Tensor reduce_input_;
};

}  // namespace

std::unique_ptr<FrameworkProfile> make_fsdp2(EagerTape& tape, const EagerModel& model, const ProfileRequest& request) {
  return std::make_unique<Fsdp2>(tape, model, request);
}

}  // namespace zeroplan::simulator
