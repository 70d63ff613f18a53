// A device for tests that is this host: the CPU's kernels behind streams, events and graphs. Work waits in its streams
// as long as it may, and streams take turns in an order that depends on a seed, so that a missing wait shows. Main
// type: HostDevice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "models/core/error.h"
#include "runtime/comm/ordered_sum.h"

namespace zeroplan::testing {

class HostDevice final : public kernels::Device {
 public:
  explicit HostDevice(std::uint64_t seed = 1, std::size_t bytes = std::size_t{1} << 30) : total_(bytes), state_(seed) {
    description_.name = "this host";
  }

  const kernels::DeviceDescription& description() const override { return description_; }
  void make_current() override {}
  kernels::DeviceMemory memory() const override { return {total_ - taken_, total_}; }
  kernels::DeviceMemory memory_at_start() const override { return {total_, total_}; }

  void* allocate(std::size_t bytes) override {
    taken_ += bytes;
    return allocate_host(bytes);
  }
  void release(void* memory) noexcept override {
    taken_ -= blocks_[memory].size() - kAlignment;
    release_host(memory);
  }
  void* allocate_host(std::size_t bytes) override {
    std::vector<std::byte> block(bytes + kAlignment);
    void* address = block.data();
    std::size_t room = block.size();
    address = std::align(kAlignment, bytes, address, room);
    blocks_[address] = std::move(block);
    return address;
  }
  void release_host(void* memory) noexcept override { blocks_.erase(memory); }

  std::unique_ptr<kernels::DeviceStream> make_stream() override { return std::make_unique<Stream>(*this); }
  std::unique_ptr<kernels::DeviceEvent> make_event(bool) override { return std::make_unique<Event>(*this); }

  std::size_t count_words(const void* begin, std::uint32_t value, std::size_t words) override {
    while (take_turn()) {
    }
    const auto* first = static_cast<const std::uint32_t*>(begin);
    return static_cast<std::size_t>(std::count(first, first + words, value));
  }
  void prepare(const kernels::DeviceCall&) override { ++prepared; }
  std::size_t workspace_bytes(const kernels::DeviceOp& op) const override {
    return std::holds_alternative<kernels::LinearForward>(op) ? least_workspace : 0;
  }

  std::size_t least_workspace = 0;  ///< that matrix products ask for
  std::size_t prepared = 0;
  std::size_t graphs_launched = 0;

 private:
  using Action = std::function<void()>;
  static constexpr std::size_t kAlignment = 256;

  /// What a stream has in it.
  struct Item {
    Action action;                         ///< or
    std::shared_ptr<std::uint64_t> event;  ///< a point that is reached at `value`, or waited for
    std::uint64_t value = 0;
    bool waits = false;
  };

  class Stream;
  class Event final : public kernels::DeviceEvent {
   public:
    explicit Event(HostDevice& device) : device_(device) {}
    void wait() override {
      while (*reached_ < recorded_) ZP_CHECK(device_.take_turn());
    }
    double seconds_since(const DeviceEvent&) const override { return 1e-3; }

   private:
    friend class HostDevice::Stream;
    HostDevice& device_;
    std::shared_ptr<std::uint64_t> reached_ = std::make_shared<std::uint64_t>(0);
    std::uint64_t recorded_ = 0;
  };

  /// Items of all streams that took part, in the order in which they were enqueued.
  struct Graph final : public kernels::DeviceGraph {
    std::vector<Action> actions;
  };

  class Stream final : public kernels::DeviceStream {
   public:
    explicit Stream(HostDevice& device) : device_(device) { device_.streams_.push_back(this); }
    ~Stream() override { std::erase(device_.streams_, this); }

    void enqueue(const kernels::DeviceCall& call) override {
      add([call] { std::visit(Call(), call.op); });
    }
    void copy(void* to, const void* from, std::size_t bytes) override {
      add([=] { std::memcpy(to, from, bytes); });
    }
    void fill(void* begin, std::byte value, std::size_t bytes) override {
      add([=] { std::memset(begin, static_cast<int>(value), bytes); });
    }
    void fill_words(void* begin, std::uint32_t value, std::size_t words) override {
      add([=] { std::fill_n(static_cast<std::uint32_t*>(begin), words, value); });
    }
    void record(kernels::DeviceEvent& event) override {
      auto& e = static_cast<Event&>(event);
      if (device_.captured_ != nullptr) return;
      items_.push_back({{}, e.reached_, ++e.recorded_, false});
    }
    void wait(kernels::DeviceEvent& event) override {
      auto& e = static_cast<Event&>(event);
      if (device_.captured_ != nullptr) return;
      items_.push_back({{}, e.reached_, e.recorded_, true});
    }
    void synchronize() override {
      while (!items_.empty()) ZP_CHECK(device_.take_turn());
    }
    void begin_capture() override { device_.captured_ = std::make_unique<Graph>(); }
    std::unique_ptr<kernels::DeviceGraph> end_capture() override { return std::move(device_.captured_); }
    void launch(kernels::DeviceGraph& graph) override {
      ++device_.graphs_launched;
      for (const Action& action : static_cast<Graph&>(graph).actions) add(action);
    }

    /// \returns false if the first item waits for something that did not happen yet, or there is none
    bool step() {
      if (items_.empty()) return false;
      Item& item = items_.front();
      if (item.waits && *item.event < item.value) return false;
      if (item.action) item.action();
      if (item.event != nullptr && !item.waits) *item.event = std::max(*item.event, item.value);
      items_.pop_front();
      return true;
    }

   private:
    void add(Action action) {
      if (device_.captured_ != nullptr) {
        device_.captured_->actions.push_back(std::move(action));
      } else {
        items_.push_back({std::move(action), nullptr, 0, false});
      }
    }

    HostDevice& device_;
    std::deque<Item> items_;
  };

  /// The CPU's kernels, with one thread.
  struct Call {
    template <class Args, class Kernel>
    static void cpu(const Args& args, Kernel kernel) {
      kernels::Workers workers(1);
      kernel(args, workers);
    }
    void operator()(const kernels::EmbeddingForward& a) const { cpu(a, kernels::cpu::embedding_forward); }
    void operator()(kernels::EmbeddingBackward a) const { with_scratch(a, kernels::cpu::embedding_backward); }
    void operator()(const kernels::LayerNormForward& a) const { cpu(a, kernels::cpu::layer_norm_forward); }
    void operator()(const kernels::LayerNormBackward& a) const { cpu(a, kernels::cpu::layer_norm_backward); }
    void operator()(const kernels::RmsNormForward& a) const { cpu(a, kernels::cpu::rms_norm_forward); }
    void operator()(const kernels::RmsNormBackward& a) const { cpu(a, kernels::cpu::rms_norm_backward); }
    void operator()(kernels::LinearForward a) const { with_scratch(a, kernels::cpu::linear_forward); }
    void operator()(kernels::LinearBackwardInput a) const { with_scratch(a, kernels::cpu::linear_backward_input); }
    void operator()(kernels::LinearBackwardWeight a) const { with_scratch(a, kernels::cpu::linear_backward_weight); }
    void operator()(const kernels::Rotary& a) const { cpu(a, kernels::cpu::rotary); }
    void operator()(const kernels::AttentionForward& a) const { cpu(a, kernels::cpu::attention_forward); }
    void operator()(kernels::AttentionBackward a) const { with_scratch(a, kernels::cpu::attention_backward); }
    void operator()(const kernels::GeluForward& a) const { cpu(a, kernels::cpu::gelu_forward); }
    void operator()(const kernels::GeluBackward& a) const { cpu(a, kernels::cpu::gelu_backward); }
    void operator()(const kernels::GatedSiluForward& a) const { cpu(a, kernels::cpu::gated_silu_forward); }
    void operator()(const kernels::GatedSiluBackward& a) const { cpu(a, kernels::cpu::gated_silu_backward); }
    void operator()(const kernels::Add& a) const { cpu(a, kernels::cpu::add); }
    void operator()(const kernels::Copy& a) const { cpu(a, kernels::cpu::copy); }
    void operator()(const kernels::CrossEntropy& a) const { cpu(a, kernels::cpu::cross_entropy); }
    void operator()(const kernels::LossSum& a) const { cpu(a, kernels::cpu::loss_sum); }
    void operator()(const kernels::AdamW& a) const { cpu(a, kernels::cpu::adamw); }
    void operator()(const kernels::LambMoments& a) const { cpu(a, kernels::cpu::lamb_moments); }
    void operator()(const kernels::LambUpdate& a) const { cpu(a, kernels::cpu::lamb_update); }
    void operator()(const kernels::SquaresInto& a) const {
      kernels::Workers workers(1);
      *a.result = (a.adds ? *a.result : 0) + kernels::cpu::sum_of_squares(a.squares, workers);
    }
    void operator()(const kernels::FinishNorm& a) const {
      std::vector<double> sums;
      for (std::size_t i = 0; i < a.count; ++i) sums.push_back(a.partials[i * a.stride]);
      kernels::finish_norm(*a.scalars, sums);
      kernels::advance_optimizer_step(*a.scalars);
    }
    void operator()(const kernels::SumInOrder& a) const {
      const std::span<const void* const> inputs(a.inputs.data(), a.input_count);
      runtime::ordered_sum(a.dtype, inputs, a.count, false, a.out);
    }
    void operator()(const kernels::RuleUpdate& a) const {
      const std::map<kernels::UpdateRule, void (*)(const kernels::OptimizerStep&, kernels::Workers&)> rules = {
          {kernels::UpdateRule::kAdam, kernels::cpu::adam},
          {kernels::UpdateRule::kSgd, kernels::cpu::sgd},
          {kernels::UpdateRule::kLion, kernels::cpu::lion},
          {kernels::UpdateRule::kAdagrad, kernels::cpu::adagrad}};
      cpu(a.step, rules.at(a.rule));
    }
    void operator()(const kernels::LambNormsInto& a) const {
      kernels::Workers workers(1);
      *a.result = kernels::cpu::lamb_norms(a.norms, workers);
    }
    void operator()(const kernels::LambRatios& a) const {
      for (std::size_t p = 0; p < a.count; ++p) {
        kernels::LambSums whole;
        for (std::size_t r = 0; r < a.ranks; ++r) {
          whole.parameter += a.parts[r * a.count + p].parameter;
          whole.direction += a.parts[r * a.count + p].direction;
        }
        a.ratios[p] = kernels::lamb_ratio(*a.scalars, whole);
      }
    }

    /// The CPU's kernels want scratch of their own.
    template <class Args, class Kernel>
    static void with_scratch(Args& args, Kernel kernel) {
      std::vector<std::byte> scratch((std::size_t{1} << 20) + 64);
      void* address = scratch.data();
      std::size_t room = scratch.size();
      args.workspace = std::align(64, std::size_t{1} << 20, address, room);
      cpu(args, kernel);
    }
  };

  /// One item of some stream that can go on. \returns false if none can
  bool take_turn() {
    if (streams_.empty()) return false;
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    const std::size_t first = static_cast<std::size_t>(state_ >> 33) % streams_.size();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[(first + i) % streams_.size()]->step()) return true;
    }
    return false;
  }

  kernels::DeviceDescription description_;
  std::size_t total_;
  std::size_t taken_ = 0;
  std::uint64_t state_;
  std::vector<Stream*> streams_;
  std::unique_ptr<Graph> captured_;
  std::map<void*, std::vector<std::byte>> blocks_;
};

}  // namespace zeroplan::testing
