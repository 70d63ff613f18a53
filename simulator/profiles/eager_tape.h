// Eager PyTorch without numbers: tensors are reference counts on allocator blocks, operators record what autograd
// keeps, and the backward pass runs in the engine's order with its rules for summing gradients. Main types: Tensor,
// BackwardCall, EagerTape. What an operator allocates and keeps is stated in eager_ops.h. Must not know models or
// frameworks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "simulator/profiles/memory_log.h"

namespace zeroplan::simulator {

class EagerTape;
using ParameterId = std::uint32_t;
using NodeId = std::uint32_t;
constexpr std::uint32_t kNone = 0xffffffff;

/// A handle: copies share the storage, the last one frees it. A tensor of a parameter holds no storage, since
/// frameworks may free it.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor other) noexcept;
  ~Tensor();

  bool defined() const { return elements_ > 0; }
  std::uint64_t elements() const { return elements_; }
  DType dtype() const { return dtype_; }
  /// Part of a graph: a gradient will come here.
  bool requires_grad() const { return node_ != kNone; }
  /// The same storage outside the graph.
  Tensor detached() const;
  /// The same storage as a view: PyTorch never adds in place into one, since the view keeps its base.
  Tensor as_view() const;
  /// A view of some of the elements (a slice); keeps the whole storage.
  Tensor as_slice(std::uint64_t elements) const;

 private:
  friend class EagerTape;
  EagerTape* tape_ = nullptr;
  std::uint32_t storage_ = kNone;
  NodeId node_ = kNone;
  std::uint64_t elements_ = 0;
  DType dtype_ = DType::kFp32;
  std::uint8_t output_ = 0;
  bool view_ = false;
};

/// Where a gradient goes: an output of a node, with the size and type it must have there.
struct Edge {
  NodeId node = kNone;
  std::uint8_t output = 0;
  DType dtype = DType::kFp32;
  std::uint64_t elements = 0;
};

/// One operator's turn in the backward pass: gradients of its outputs come in, gradients of its inputs go out.
struct BackwardCall {
  EagerTape& tape;
  std::span<Tensor> grads;
  std::span<Tensor> out;
  std::span<const Edge> edges;
  bool needs(std::size_t input) const { return edges[input].node != kNone; }
};
/// What it captures is what autograd saves; it is destroyed when the operator has had its turn.
using Backward = std::function<void(BackwardCall&)>;

/// A trained or frozen tensor as the graph sees it. Its memory belongs to the framework.
struct GraphParameter {
  std::uint64_t elements = 0;
  DType dtype = DType::kFp32;
  bool trained = true;
  NodeId node = kNone;  ///< its gradient accumulator
  Tensor grad;
  Tensor autocast_copy;  ///< the 16-bit copy while the autocast cache lives
};

/// A part of the forward pass that is run again in the backward pass.
using Segment = std::function<Tensor(const std::vector<Tensor>&)>;

/// Called when a parameter's gradient has been written; may take it away.
using GradientHook = std::function<void(ParameterId)>;

class EagerTape {
 public:
  /// `gemm_workspaces`: bytes of what matrix libraries keep for each thread that calls them.
  EagerTape(MemoryLog& log, std::vector<std::uint64_t> gemm_workspaces);
  EagerTape(const EagerTape&) = delete;
  EagerTape& operator=(const EagerTape&) = delete;

  MemoryLog& log() { return log_; }

  /// A new tensor outside the graph.
  Tensor make(std::uint64_t elements, DType dtype, SiteId site, StreamId stream = 0);
  /// Puts `output` into the graph if gradients are on and an input (or `always`) asks for one.
  void record(Tensor& output, std::initializer_list<const Tensor*> inputs, Backward backward, bool always = false);
  /// The same for an operator with several outputs.
  void record(std::initializer_list<Tensor*> outputs, std::initializer_list<const Tensor*> inputs, Backward backward);

  ParameterId add_parameter(std::uint64_t elements, DType dtype, bool trained);
  GraphParameter& parameter(ParameterId id) { return parameters_[id]; }
  std::size_t parameter_count() const { return parameters_.size(); }
  /// The parameter as an operand.
  Tensor operand(ParameterId id);
  /// The parameter as autocast hands it to a matrix product: a cached 16-bit copy; outside autocast itself.
  Tensor cast_operand(ParameterId id, SiteId site);
  void set_gradient_hook(GradientHook hook) { gradient_hook_ = std::move(hook); }

  bool grad_enabled() const { return grad_enabled_; }
  void set_grad_enabled(bool on) { grad_enabled_ = on; }
  bool autocast() const { return autocast_depth_ > 0 && !autocast_suspended_; }
  void enter_autocast() { ++autocast_depth_; }
  /// Composite operators on autocast's list run their parts without it. Returns what was set.
  bool suspend_autocast(bool on) { return std::exchange(autocast_suspended_, on); }
  /// The outermost exit drops the weight copies, except those that the graph keeps.
  void exit_autocast();

  /// Matrix libraries take a workspace for each thread that calls them: the forward and the backward thread. They are
  /// there before the model is made (measured runs hold 66 MiB before their first weight), so that workspaces do not
  /// split the segments of a step.
  void warm_up();

  /// Runs the graph behind `root` backward; `grad` is moved in. Nested calls are fine (recomputation).
  void backward(Tensor root, Tensor grad);
  /// Forward computed without a graph, and again when its gradient comes. `segment` maps the inputs to the output.
  Tensor checkpoint(const std::vector<Tensor>& inputs, const Segment& segment);

 private:
  friend class Tensor;
  struct Storage {
    BlockId block = kNoBlock;
    std::uint32_t refs = 0;
    SiteId site = 0;
  };
  struct Node {
    std::uint64_t sequence = 0;
    std::uint32_t refs = 0;
    std::uint32_t dependencies = 0;
    std::uint64_t visited = 0;
    ParameterId parameter = kNone;  ///< of a gradient accumulator
    Tensor* leaf = nullptr;         ///< of a recomputed segment's input: where the gradient goes
    bool queued = false;
    boost::container::small_vector<Edge, 3> edges;
    boost::container::small_vector<Tensor, 1> grads;
    Backward run;
  };

  void retain_storage(std::uint32_t id) { ++storages_[id].refs; }
  void release_storage(std::uint32_t id);
  void retain_node(NodeId id) { ++nodes_[id].refs; }
  void release_node(NodeId id);
  NodeId new_node();
  Edge edge_to(const Tensor& input) const;
  void record_from(Tensor& output, std::span<const Tensor* const> inputs, Backward backward, bool always);
  void count_dependencies(NodeId root);
  void run_node(NodeId id);
  void accumulate_parameter(ParameterId id, Tensor grad);
  void add_into(Tensor& slot, Tensor grad);
  /// Sums a broadcast gradient and casts it, as the engine does after each operator.
  Tensor conform(Tensor grad, const Edge& edge);
  bool sole_owner(const Tensor& t) const { return t.storage_ != kNone && !t.view_ && storages_[t.storage_].refs == 1; }

  MemoryLog& log_;
  std::vector<std::uint64_t> gemm_workspaces_;
  std::vector<Storage> storages_;
  std::vector<std::uint32_t> free_storages_;
  std::deque<Node> nodes_;
  std::vector<NodeId> free_nodes_;
  std::vector<NodeId> dying_;
  bool burying_ = false;
  std::vector<GraphParameter> parameters_;
  std::vector<ParameterId> autocast_copies_;
  GradientHook gradient_hook_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_visit_ = 1;
  unsigned backward_depth_ = 0;
  unsigned autocast_depth_ = 0;
  bool autocast_suspended_ = false;
  bool grad_enabled_ = true;
  std::vector<std::pair<std::uint64_t, NodeId>>* ready_ = nullptr;  ///< heap of the running backward pass
};

}  // namespace zeroplan::simulator
