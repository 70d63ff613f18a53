#include "tests/packing/training_instance.h"

#include <algorithm>

namespace zeroplan::planner {
namespace {

/// Collects buffers with the true span in which they may be live and the position that the packer is told.
class InstanceWriter {
 public:
  void add(std::int64_t begin, std::int64_t end, std::uint64_t size, std::int64_t slack_before = 0,
           std::int64_t slack_after = 0) {
    if (size == 0) return;
    spans_.push_back({begin - slack_before, end + slack_after});
    instance_.sizes.push_back((size + 63) / 64 * 64);
    instance_.stays.push_back({static_cast<std::uint32_t>(instance_.stays.size()), static_cast<std::uint32_t>(begin),
                               static_cast<std::uint32_t>(end)});
    instance_.pinned.push_back(kNotPinned);
  }
  void add_pinned(std::int64_t end, std::uint64_t size) {
    add(0, end, size);
    if (size > 0) instance_.pinned.back() = 0;
  }
  ConflictInstance finish() {
    const auto overlap = [&](std::uint32_t i, std::uint32_t j) {
      return spans_[i].begin <= spans_[j].end && spans_[j].begin <= spans_[i].end;
    };
    instance_.conflicts = conflict_lists(static_cast<std::uint32_t>(spans_.size()), overlap);
    return std::move(instance_);
  }

 private:
  struct Span {
    std::int64_t begin;
    std::int64_t end;
  };
  std::vector<Span> spans_;
  ConflictInstance instance_;
};

}  // namespace

ConflictInstance training_instance(const TrainingShape& shape) {
  InstanceWriter writer;
  constexpr std::int64_t kTicks = 4;  // per task, so that lanes can begin within one
  constexpr std::int64_t kStart = 16;
  const std::int64_t layers = shape.layers;
  const std::int64_t end = kStart + (2 * layers + 5) * kTicks;
  const auto forward = [&](std::int64_t layer) { return kStart + (layer + 1) * kTicks; };  // task 0: embedding
  const std::int64_t head = kStart + (layers + 1) * kTicks;
  const auto backward = [&](std::int64_t layer) { return head + (layers - layer) * kTicks; };
  const std::int64_t embedding_backward = backward(-1);
  const std::int64_t ahead = shape.gather_ahead * kTicks;
  const std::int64_t behind = shape.reduce_behind * kTicks;
  const auto gather = [&](std::int64_t at, std::uint64_t size) {
    writer.add(at - 1, at + kTicks - 1, size, ahead - 1);
  };
  const auto reduce = [&](std::int64_t at, std::uint64_t size) { writer.add(at, at + kTicks, size, 0, behind); };

  writer.add_pinned(end, shape.pinned);
  gather(kStart, shape.embedding);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (shape.gathered > 0) gather(forward(layer), shape.gathered);
    writer.add(forward(layer), forward(layer) + kTicks - 1, shape.frame);
    const std::uint64_t saved = shape.recompute ? shape.saved / 10 : shape.saved;
    for (std::uint32_t part = 0; part < shape.saved_parts; ++part) {
      const std::uint64_t share = saved * (part + 1) * 2 / (std::uint64_t{shape.saved_parts} * (shape.saved_parts + 1));
      writer.add(forward(layer) + part % kTicks, backward(layer) + kTicks - 1 - part % 2, share);
    }
  }
  gather(head, shape.embedding);
  writer.add(head, head + kTicks - 1, shape.logits);
  writer.add(head, head + 1, shape.frame / 3);
  reduce(head + 1, shape.embedding);
  for (std::int64_t layer = layers; layer-- > 0;) {
    if (shape.gathered > 0) gather(backward(layer), shape.gathered);
    writer.add(backward(layer), backward(layer) + kTicks - 1,
               shape.recompute ? shape.frame + shape.saved : shape.frame * 2);
    reduce(backward(layer), shape.gradient);
    if (shape.gradient_shard > 0) writer.add(backward(layer) + 2, end, shape.gradient_shard);
    writer.add(backward(layer) + 1, backward(layer) + kTicks + 1,
               shape.saved / 7 + 1);  // gradient of the layer's input
  }
  reduce(embedding_backward, shape.embedding);
  return writer.finish();
}

}  // namespace zeroplan::planner
