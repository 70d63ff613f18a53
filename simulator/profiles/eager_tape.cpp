#include "simulator/profiles/eager_tape.h"

#include <algorithm>
#include <utility>

#include "models/core/error.h"
#include "simulator/profiles/sites.h"

namespace zeroplan::simulator {
namespace {

constexpr std::uint64_t kAccumulatorSequence =
    ~std::uint64_t{0};  // gradient accumulators run as soon as they are ready

}  // namespace

Tensor::Tensor(const Tensor& other)
    : tape_(other.tape_),
      storage_(other.storage_),
      node_(other.node_),
      elements_(other.elements_),
      dtype_(other.dtype_),
      output_(other.output_),
      view_(other.view_) {
  if (storage_ != kNone) tape_->retain_storage(storage_);
  if (node_ != kNone) tape_->retain_node(node_);
}

Tensor::Tensor(Tensor&& other) noexcept
    : tape_(other.tape_),
      storage_(std::exchange(other.storage_, kNone)),
      node_(std::exchange(other.node_, kNone)),
      elements_(std::exchange(other.elements_, 0)),
      dtype_(other.dtype_),
      output_(other.output_),
      view_(other.view_) {}

Tensor& Tensor::operator=(Tensor other) noexcept {
  std::swap(tape_, other.tape_);
  std::swap(storage_, other.storage_);
  std::swap(node_, other.node_);
  std::swap(elements_, other.elements_);
  std::swap(dtype_, other.dtype_);
  std::swap(output_, other.output_);
  std::swap(view_, other.view_);
  return *this;
}

Tensor::~Tensor() {
  if (storage_ != kNone) tape_->release_storage(storage_);
  if (node_ != kNone) tape_->release_node(node_);
}

Tensor Tensor::detached() const {
  Tensor t = *this;
  if (t.node_ != kNone) t.tape_->release_node(std::exchange(t.node_, kNone));
  return t;
}

Tensor Tensor::as_view() const {
  Tensor t = *this;
  t.view_ = true;
  return t;
}

Tensor Tensor::as_slice(std::uint64_t elements) const {
  Tensor t = *this;
  t.view_ = true;
  t.elements_ = elements;
  return t;
}

EagerTape::EagerTape(MemoryLog& log, std::vector<std::uint64_t> gemm_workspaces)
    : log_(log), gemm_workspaces_(std::move(gemm_workspaces)) {}

void EagerTape::release_storage(std::uint32_t id) {
  Storage& s = storages_[id];
  if (--s.refs > 0) return;
  log_.release(s.block, s.site);
  free_storages_.push_back(id);
}

/// Long chains die iteratively: each node holds the ones before it.
void EagerTape::release_node(NodeId id) {
  if (--nodes_[id].refs > 0) return;
  dying_.push_back(id);
  if (burying_) return;
  burying_ = true;
  while (!dying_.empty()) {
    const NodeId dead = dying_.back();
    dying_.pop_back();
    Node& node = nodes_[dead];
    const Backward saved = std::exchange(node.run, nullptr);
    const auto edges = std::exchange(node.edges, {});
    node.grads.clear();
    node.leaf = nullptr;
    node.parameter = kNone;
    for (const Edge& e : edges) {
      if (e.node != kNone) release_node(e.node);
    }
    free_nodes_.push_back(dead);
  }
  burying_ = false;
}

NodeId EagerTape::new_node() {
  NodeId id = static_cast<NodeId>(nodes_.size());
  if (!free_nodes_.empty()) {
    id = free_nodes_.back();
    free_nodes_.pop_back();
  } else {
    nodes_.emplace_back();
  }
  Node& node = nodes_[id];
  node.sequence = next_sequence_++;
  node.refs = 0;
  node.visited = 0;
  node.queued = false;
  return id;
}

Tensor EagerTape::make(std::uint64_t elements, DType dtype, SiteId site, StreamId stream) {
  Tensor t;
  t.tape_ = this;
  t.elements_ = elements;
  t.dtype_ = dtype;
  if (elements == 0) return t;
  std::uint32_t id = static_cast<std::uint32_t>(storages_.size());
  if (!free_storages_.empty()) {
    id = free_storages_.back();
    free_storages_.pop_back();
  } else {
    storages_.emplace_back();
  }
  const BlockId block = log_.allocate(elements, dtype, site, stream);
  storages_[id] = {block, 1, site};
  t.storage_ = id;
  return t;
}

Edge EagerTape::edge_to(const Tensor& input) const {
  return {input.node_, input.output_, input.dtype_, input.elements_};
}

void EagerTape::record(Tensor& output, std::initializer_list<const Tensor*> inputs, Backward backward, bool always) {
  record_from(output, {inputs.begin(), inputs.size()}, std::move(backward), always);
}

void EagerTape::record_from(Tensor& output, std::span<const Tensor* const> inputs, Backward backward, bool always) {
  const bool asked =
      always || std::any_of(inputs.begin(), inputs.end(), [](const Tensor* t) { return t->requires_grad(); });
  if (!grad_enabled_ || !asked) return;
  const NodeId id = new_node();
  Node& node = nodes_[id];
  for (const Tensor* input : inputs) {
    node.edges.push_back(edge_to(*input));
    if (input->node_ != kNone) retain_node(input->node_);
  }
  node.grads.resize(1);
  node.run = std::move(backward);
  const NodeId before = std::exchange(output.node_, id);  // an output that shares its input's storage had a node
  output.output_ = 0;
  retain_node(id);
  if (before != kNone) release_node(before);
}

void EagerTape::record(std::initializer_list<Tensor*> outputs, std::initializer_list<const Tensor*> inputs,
                       Backward backward) {
  Tensor& first = **outputs.begin();
  record(first, inputs, std::move(backward));
  if (!first.requires_grad()) return;
  nodes_[first.node_].grads.resize(outputs.size());
  std::uint8_t index = 0;
  for (Tensor* output : outputs) {
    if (index > 0) {
      const NodeId before = std::exchange(output->node_, first.node_);
      retain_node(first.node_);
      if (before != kNone) release_node(before);
    }
    output->output_ = index++;
  }
}

ParameterId EagerTape::add_parameter(std::uint64_t elements, DType dtype, bool trained) {
  const ParameterId id = static_cast<ParameterId>(parameters_.size());
  GraphParameter p{
      .elements = elements, .dtype = dtype, .trained = trained, .node = kNone, .grad = {}, .autocast_copy = {}};
  if (trained) {
    p.node = new_node();
    Node& node = nodes_[p.node];
    node.sequence = kAccumulatorSequence;
    node.parameter = id;
    node.grads.resize(1);
    retain_node(p.node);
  }
  parameters_.push_back(std::move(p));
  return id;
}

Tensor EagerTape::operand(ParameterId id) {
  const GraphParameter& p = parameters_[id];
  Tensor t;
  t.tape_ = this;
  t.elements_ = p.elements;
  t.dtype_ = p.dtype;
  t.node_ = p.node;
  if (t.node_ != kNone) retain_node(t.node_);
  return t;
}

Tensor EagerTape::cast_operand(ParameterId id, SiteId site) {
  GraphParameter& p = parameters_[id];
  if (!autocast() || p.dtype != DType::kFp32) return operand(id);
  if (p.autocast_copy.defined()) return p.autocast_copy;
  Tensor copy = make(p.elements, DType::kBf16, site);
  const Tensor weight = operand(id);
  record(copy, {&weight},
         [](BackwardCall& call) { call.out[0] = std::move(call.grads[0]); });  // the engine casts to fp32
  if (p.trained) {  // only what asks for a gradient is cached
    p.autocast_copy = copy;
    autocast_copies_.push_back(id);
  }
  return copy;
}

void EagerTape::exit_autocast() {
  if (--autocast_depth_ > 0) return;
  for (const ParameterId id : autocast_copies_) parameters_[id].autocast_copy = {};
  autocast_copies_.clear();
}

void EagerTape::warm_up() {
  constexpr int kThreads = 2;
  for (int thread = 0; thread < kThreads; ++thread) {
    for (const std::uint64_t bytes : gemm_workspaces_) log_.allocate(bytes, DType::kUint8, kWorkspace);
  }
}

void EagerTape::count_dependencies(NodeId root) {
  const std::uint64_t visit = next_visit_++;
  std::vector<NodeId> stack{root};
  nodes_[root].visited = visit;
  nodes_[root].dependencies = 0;
  nodes_[root].queued = false;
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (const Edge& e : nodes_[id].edges) {
      if (e.node == kNone) continue;
      Node& next = nodes_[e.node];
      if (next.visited != visit) {
        next.visited = visit;
        next.dependencies = 0;
        next.queued = false;
        stack.push_back(e.node);
      }
      ++next.dependencies;
    }
  }
}

void EagerTape::add_into(Tensor& slot, Tensor grad) {
  if (!slot.defined()) {
    slot = std::move(grad);
  } else if (sole_owner(slot)) {
    grad = {};  // slot.add_(grad); the engine never adds into the gradient that comes second
  } else {
    Tensor sum = make(slot.elements(), slot.dtype(), kActivationGradients);
    slot = std::move(sum);
  }
}

Tensor EagerTape::conform(Tensor grad, const Edge& edge) {
  if (grad.elements() > edge.elements) grad = make(edge.elements, grad.dtype(), kActivationGradients);
  if (grad.dtype() != edge.dtype) grad = make(edge.elements, edge.dtype, kActivationGradients);
  return grad;
}

void EagerTape::accumulate_parameter(ParameterId id, Tensor grad) {
  GraphParameter& p = parameters_[id];
  if (!p.grad.defined()) {
    const bool stolen = grad.storage_ != kNone && storages_[grad.storage_].refs == 1;
    p.grad = stolen ? std::move(grad) : make(p.elements, p.dtype, kGradients);
    if (stolen) p.grad.view_ = false;
  }  // otherwise added in place
  grad = {};
  if (gradient_hook_) gradient_hook_(id);
}

void EagerTape::run_node(NodeId id) {
  boost::container::small_vector<Tensor, 1> grads;
  std::swap(grads, nodes_[id].grads);
  nodes_[id].grads.resize(grads.size());
  if (nodes_[id].parameter != kNone) {
    accumulate_parameter(nodes_[id].parameter, std::move(grads[0]));
    return;
  }
  if (nodes_[id].leaf != nullptr) {
    *nodes_[id].leaf = std::move(grads[0]);
    return;
  }
  boost::container::small_vector<Tensor, 3> out(nodes_[id].edges.size());
  const bool any = std::any_of(grads.begin(), grads.end(), [](const Tensor& t) { return t.defined(); });
  if (!any) {
    nodes_[id].run = nullptr;
  } else {
    Backward run = std::exchange(nodes_[id].run, nullptr);
    ZP_CHECK(run != nullptr);
    BackwardCall call{*this,
                      {grads.data(), grads.size()},
                      {out.data(), out.size()},
                      {nodes_[id].edges.data(), nodes_[id].edges.size()}};
    run(call);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i].defined()) out[i] = conform(std::move(out[i]), nodes_[id].edges[i]);
    }
    grads.clear();  // incoming gradients go before what the operator saved
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Edge e = nodes_[id].edges[i];
    if (e.node == kNone) continue;
    Node& next = nodes_[e.node];
    if (out[i].defined()) add_into(next.grads[e.output], std::move(out[i]));
    if (--next.dependencies == 0) {
      ready_->emplace_back(next.sequence, e.node);
      std::push_heap(ready_->begin(), ready_->end());
    }
  }
}

void EagerTape::backward(Tensor root, Tensor grad) {
  ZP_CHECK(root.requires_grad());
  const NodeId root_node = root.node_;
  retain_node(root_node);
  count_dependencies(root_node);
  nodes_[root_node].grads[root.output_] = std::move(grad);
  root = {};
  std::vector<std::pair<std::uint64_t, NodeId>> ready{{nodes_[root_node].sequence, root_node}};
  auto* const outer_ready = std::exchange(ready_, &ready);
  const bool outer_enabled = std::exchange(grad_enabled_, false);
  ++backward_depth_;
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end());
    const NodeId id = ready.back().second;
    ready.pop_back();
    run_node(id);
  }
  --backward_depth_;
  grad_enabled_ = outer_enabled;
  ready_ = outer_ready;
  release_node(root_node);
}

Tensor EagerTape::checkpoint(const std::vector<Tensor>& inputs, const Segment& segment) {
  if (!grad_enabled_) return segment(inputs);
  std::vector<Tensor> saved;
  std::vector<const Tensor*> edges;
  for (const Tensor& input : inputs) {
    saved.push_back(input.detached());
    edges.push_back(&input);
  }
  grad_enabled_ = false;
  Tensor output = segment(saved);
  grad_enabled_ = true;
  const auto recompute = [this, segment, saved, in_autocast = autocast()](BackwardCall& call) {
    std::vector<Tensor> gradients(saved.size());
    std::vector<Tensor> leaves = saved;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].defined()) continue;
      leaves[i].node_ = new_node();
      retain_node(leaves[i].node_);
      nodes_[leaves[i].node_].leaf = &gradients[i];
      nodes_[leaves[i].node_].grads.resize(1);
    }
    grad_enabled_ = true;
    if (in_autocast) enter_autocast();
    Tensor again = segment(leaves);
    if (in_autocast) exit_autocast();
    grad_enabled_ = false;
    leaves.clear();
    if (again.requires_grad()) backward(std::move(again), std::move(call.grads[0]));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (call.needs(i)) call.out[i] = std::move(gradients[i]);
    }
  };
  record_from(output, edges, recompute, true);
  return output;
}

}  // namespace zeroplan::simulator
