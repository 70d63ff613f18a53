#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "kernels/kernels.h"
#include "models/core/embedding_workspace.h"
#include "runtime/calibration/measure_kernels.h"

namespace zeroplan::runtime {
namespace {

using kernels::Workers;
using planner::OpPoint;

constexpr std::array<std::uint64_t, 4> kWorks = {1u << 13, 1u << 16, 1u << 19, 1u << 22};
constexpr std::array<std::uint64_t, 3> kWidths = {64, 256, 1024};
constexpr std::array<std::uint64_t, 3> kHeadSizes = {32, 64, 128};
constexpr std::array<std::uint64_t, 5> kSequences = {64, 128, 256, 512, 1024};
constexpr std::array<std::uint64_t, 3> kVocabularies = {256, 4096, 32768};
/// Tokens x heads of an attention measurement, and heads.
constexpr std::uint64_t kAttentionRows = 4096;
constexpr std::uint64_t kAttentionHeads = 4;

using Floats = std::shared_ptr<FloatBuffer>;
Floats floats(std::uint64_t count) {
  return std::make_shared<FloatBuffer>(count);
}

using Tensors = std::shared_ptr<TensorBuffer>;
Tensors tensors(std::uint64_t count, DType dtype) {
  return std::make_shared<TensorBuffer>(count, dtype);
}

std::shared_ptr<std::vector<std::int32_t>> ids(std::uint64_t count, std::uint64_t below) {
  auto values = std::make_shared<std::vector<std::int32_t>>(count);
  std::uint64_t state = 1;
  for (std::int32_t& value : *values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<std::int32_t>((state >> 33) % below);
  }
  return values;
}

struct At {
  std::uint64_t work = 1;
  std::uint64_t width = 1;
  std::uint64_t depth = 1;
};

/// Measures ops of one type on one team and collects the points. Bodies capture their buffers.
class OpMeasurer {
 public:
  OpMeasurer(const RankTeam& team, DType dtype, std::uint64_t most_work, const Progress& progress)
      : team_(team), dtype_(dtype), most_work_(most_work), progress_(progress) {}

  void norms(std::uint64_t work, std::uint64_t width);
  void rotary(std::uint64_t work, std::uint64_t head_size);
  void attention(std::uint64_t seq, std::uint64_t head_size);
  void elementwise(std::uint64_t work);
  void cross_entropy(std::uint64_t work, std::uint64_t vocabulary);
  void embedding(std::uint64_t work, std::uint64_t width);
  void states(std::uint64_t work);

  bool takes(std::uint64_t work) const { return work <= most_work_; }
  std::vector<OpPoint> take() { return std::move(points_); }

 private:
  template <class Arguments>
  void optimizer(const std::string& op, std::uint64_t work, void (*kernel)(const Arguments&, kernels::Workers&));
  template <class Prepare>
  void add(const std::string& op, const At& at, Prepare&& prepare) {
    if (progress_) progress_(fmt::format("{} {} {}, {} rank(s)", op, to_string(dtype_), at.work, team_.ranks()));
    const Seconds time = team_.time([&](std::size_t) -> RankBody { return prepare(); });
    points_.push_back({op, dtype_, team_.ranks(), at.work, at.width, at.depth, time});
  }

  const RankTeam& team_;
  DType dtype_;
  std::uint64_t most_work_;
  const Progress& progress_;
  std::vector<OpPoint> points_;
};

void OpMeasurer::norms(std::uint64_t work, std::uint64_t width) {
  const DType dtype = dtype_;
  const std::uint64_t rows = work / width;
  const At at{work, width};
  add("rms_norm_forward", at, [=] {
    Tensors x = tensors(work, dtype), w = tensors(width, dtype), y = tensors(work, dtype);
    Floats rstd = floats(rows);
    kernels::RmsNormForward args;
    args.dtype = dtype;
    args.rows = rows;
    args.width = width;
    args.x = x->data();
    args.weight = w->data();
    args.y = y->data();
    args.rstd = rstd->data();
    return [=, keep = std::tuple{x, w, y, rstd}](Workers& workers) { kernels::cpu::rms_norm_forward(args, workers); };
  });
  add("rms_norm_backward", at, [=] {
    Tensors d_y = tensors(work, dtype), x = tensors(work, dtype), w = tensors(width, dtype), d_x = tensors(work, dtype),
            d_w = tensors(width, dtype);
    Floats rstd = floats(rows);
    kernels::RmsNormBackward args;
    args.dtype = args.gradient_dtype = dtype;
    args.rows = rows;
    args.width = width;
    args.d_y = d_y->data();
    args.x = x->data();
    args.weight = w->data();
    args.rstd = rstd->data();
    args.d_x = d_x->data();
    args.d_weight = d_w->data();
    return [=, keep = std::tuple{d_y, x, w, rstd, d_x, d_w}](Workers& workers) {
      kernels::cpu::rms_norm_backward(args, workers);
    };
  });
  add("layer_norm_forward", at, [=] {
    Tensors x = tensors(work, dtype), w = tensors(width, dtype), bias = tensors(width, dtype), y = tensors(work, dtype);
    Floats statistics = floats(2 * rows);
    kernels::LayerNormForward args;
    args.dtype = dtype;
    args.rows = rows;
    args.width = width;
    args.x = x->data();
    args.weight = w->data();
    args.bias = bias->data();
    args.y = y->data();
    args.mean = statistics->data();
    args.rstd = statistics->data() + rows;
    return [=, keep = std::tuple{x, w, bias, y, statistics}](Workers& workers) {
      kernels::cpu::layer_norm_forward(args, workers);
    };
  });
  add("layer_norm_backward", at, [=] {
    Tensors d_y = tensors(work, dtype), x = tensors(work, dtype), w = tensors(width, dtype), d_x = tensors(work, dtype),
            d_w = tensors(width, dtype), d_bias = tensors(width, dtype);
    Floats statistics = floats(2 * rows);
    kernels::LayerNormBackward args;
    args.dtype = args.gradient_dtype = dtype;
    args.rows = rows;
    args.width = width;
    args.d_y = d_y->data();
    args.x = x->data();
    args.weight = w->data();
    args.mean = statistics->data();
    args.rstd = statistics->data() + rows;
    args.d_x = d_x->data();
    args.d_weight = d_w->data();
    args.d_bias = d_bias->data();
    return [=, keep = std::tuple{d_y, x, w, statistics, d_x, d_w, d_bias}](Workers& workers) {
      kernels::cpu::layer_norm_backward(args, workers);
    };
  });
}

void OpMeasurer::rotary(std::uint64_t work, std::uint64_t head_size) {
  const DType dtype = dtype_;
  const std::uint64_t tokens = work / (kAttentionHeads * head_size);
  add("rotary_forward", {work, head_size}, [=] {
    Floats table = floats(tokens * head_size);
    Tensors x = tensors(work, dtype);
    std::fill_n(table->data(), table->size(),
                std::sqrt(0.5f));  // rotates by 45 degrees, so that repeats change no magnitude
    kernels::Rotary args;
    args.dtype = dtype;
    args.tokens = tokens;
    args.heads = kAttentionHeads;
    args.head_size = head_size;
    args.sequence_length = tokens;
    args.table = table->data();
    args.x = x->data();
    return [=, keep = std::tuple{table, x}](Workers& workers) { kernels::cpu::rotary(args, workers); };
  });
  points_.push_back(points_.back());  // the same kernel, turning back
  points_.back().op = "rotary_backward";
}

void OpMeasurer::attention(std::uint64_t seq, std::uint64_t head_size) {
  const std::uint64_t tokens = kAttentionRows / kAttentionHeads;
  const std::uint64_t count = kAttentionRows * head_size;
  const DType dtype = dtype_;
  kernels::AttentionShape shape;
  shape.dtype = dtype;
  shape.sequences = tokens / seq;
  shape.sequence_length = seq;
  shape.heads = kAttentionHeads;
  shape.kv_heads = kAttentionHeads;
  shape.head_size = head_size;
  shape.scale = 1 / std::sqrt(static_cast<float>(head_size));
  const At at{kAttentionRows, head_size, seq};
  const auto forward = [=](const std::array<Tensors, 3>& qkv, const Tensors& out, const Floats& lse) {
    kernels::AttentionForward args;
    args.shape = shape;
    args.q = qkv[0]->data();
    args.k = qkv[1]->data();
    args.v = qkv[2]->data();
    args.out = out->data();
    args.lse = lse->data();
    return args;
  };
  add("attention_forward", at, [=] {
    const std::array qkv = {tensors(count, dtype), tensors(count, dtype), tensors(count, dtype)};
    Tensors out = tensors(count, dtype);
    Floats lse = floats(kAttentionRows);
    return [args = forward(qkv, out, lse), keep = std::tuple{qkv, out, lse}](Workers& workers) {
      kernels::cpu::attention_forward(args, workers);
    };
  });
  add("attention_backward", at, [=] {
    const std::array qkv = {tensors(count, dtype), tensors(count, dtype), tensors(count, dtype)};
    const std::array d_qkv = {tensors(count, dtype), tensors(count, dtype), tensors(count, dtype)};
    Tensors out = tensors(count, dtype), d_out = tensors(count, dtype);
    Floats lse = floats(kAttentionRows);
    const Bytes scratch = attention_backward_workspace_bytes(tokens, kAttentionHeads, head_size, dtype);
    Floats workspace = floats(scratch.count() / sizeof(float));
    kernels::AttentionBackward args;
    args.shape = shape;
    args.d_out = d_out->data();
    args.q = qkv[0]->data();
    args.k = qkv[1]->data();
    args.v = qkv[2]->data();
    args.out = out->data();
    args.lse = lse->data();
    args.d_q = d_qkv[0]->data();
    args.d_k = d_qkv[1]->data();
    args.d_v = d_qkv[2]->data();
    args.workspace = scratch == Bytes() ? nullptr : workspace->data();
    kernels::Workers alone(1);
    kernels::cpu::attention_forward(forward(qkv, out, lse), alone);  // a log-sum-exp that fits the scores
    return [=, keep = std::tuple{qkv, out, lse, d_out, d_qkv, workspace}](Workers& workers) {
      kernels::cpu::attention_backward(args, workers);
    };
  });
}

void OpMeasurer::elementwise(std::uint64_t work) {
  const DType dtype = dtype_;
  add("gelu_forward", {work}, [=] {
    Tensors x = tensors(work, dtype), y = tensors(work, dtype);
    return [=](Workers& workers) {
      kernels::cpu::gelu_forward({.dtype = dtype, .count = work, .x = x->data(), .y = y->data()}, workers);
    };
  });
  add("gelu_backward", {work}, [=] {
    Tensors d_y = tensors(work, dtype), x = tensors(work, dtype), d_x = tensors(work, dtype);
    return [=](Workers& workers) {
      kernels::cpu::gelu_backward(
          {.dtype = dtype, .count = work, .d_y = d_y->data(), .x = x->data(), .d_x = d_x->data()}, workers);
    };
  });
  add("gated_silu_forward", {work}, [=] {
    Tensors gate = tensors(work, dtype), up = tensors(work, dtype), y = tensors(work, dtype);
    return [=](Workers& workers) {
      kernels::cpu::gated_silu_forward(
          {.dtype = dtype, .count = work, .gate = gate->data(), .up = up->data(), .y = y->data()}, workers);
    };
  });
  add("gated_silu_backward", {work}, [=] {
    Tensors d_y = tensors(work, dtype), gate = tensors(work, dtype), up = tensors(work, dtype),
            d_gate = tensors(work, dtype), d_up = tensors(work, dtype);
    kernels::GatedSiluBackward args;
    args.dtype = dtype;
    args.count = work;
    args.d_y = d_y->data();
    args.gate = gate->data();
    args.up = up->data();
    args.d_gate = d_gate->data();
    args.d_up = d_up->data();
    return [=, keep = std::array{d_y, gate, up, d_gate, d_up}](Workers& workers) {
      kernels::cpu::gated_silu_backward(args, workers);
    };
  });
  add("residual_add", {work}, [=] {
    Tensors a = tensors(work, dtype), b = tensors(work, dtype), out = tensors(work, dtype);
    return [=](Workers& workers) {
      kernels::cpu::add({.dtype = dtype, .count = work, .a = a->data(), .b = b->data(), .out = out->data()}, workers);
    };
  });
}

void OpMeasurer::cross_entropy(std::uint64_t work, std::uint64_t vocabulary) {
  const DType dtype = dtype_;
  const std::uint64_t rows = work / vocabulary;
  add("cross_entropy", {work, vocabulary}, [=] {
    Tensors logits = tensors(work, dtype);
    Floats losses = floats(rows);
    auto labels = ids(rows, vocabulary);
    auto scalars = std::make_shared<kernels::StepScalars>();
    scalars->inverse_valid_tokens = 1;  // keeps the logits, which become their gradients, away from denormal numbers
    kernels::CrossEntropy args;
    args.dtype = dtype;
    args.rows = rows;
    args.vocabulary = vocabulary;
    args.labels = labels->data();
    args.logits = logits->data();
    args.row_losses = losses->data();
    args.scalars = scalars.get();
    return [args, logits, losses, labels, scalars](Workers& workers) { kernels::cpu::cross_entropy(args, workers); };
  });
}

void OpMeasurer::embedding(std::uint64_t work, std::uint64_t width) {
  const DType dtype = dtype_;
  const std::uint64_t tokens = work / width;
  const std::uint64_t vocabulary = 4096;
  add("embedding_forward", {work, width}, [=] {
    Tensors table = tensors(vocabulary * width, dtype), out = tensors(work, dtype);
    auto tokens_in = ids(tokens, vocabulary);
    kernels::EmbeddingForward args;
    args.dtype = dtype;
    args.tokens = tokens;
    args.width = width;
    args.sequence_length = tokens;
    args.ids = tokens_in->data();
    args.token_table = table->data();
    args.out = out->data();
    return [args, table, out, tokens_in](Workers& workers) { kernels::cpu::embedding_forward(args, workers); };
  });
  add("embedding_backward", {work, width}, [=] {
    Tensors table = tensors(vocabulary * width, dtype), d_out = tensors(work, dtype);
    const Bytes scratch = embedding_backward_workspace_bytes(tokens, dtype);
    Floats workspace = floats(scratch.count() / sizeof(float));
    auto tokens_in = ids(tokens, vocabulary);
    kernels::EmbeddingBackward args;
    args.dtype = args.gradient_dtype = dtype;
    args.tokens = tokens;
    args.width = width;
    args.sequence_length = tokens;
    args.vocabulary = vocabulary;
    args.ids = tokens_in->data();
    args.d_out = d_out->data();
    args.d_token_table = table->data();
    args.accumulate = true;  // without it the table is zeroed too: "fill"
    args.workspace = scratch == Bytes() ? nullptr : workspace->data();
    return [args, table, d_out, tokens_in, workspace](Workers& workers) {
      kernels::cpu::embedding_backward(args, workers);
    };
  });
}

template <class Arguments>
void OpMeasurer::optimizer(const std::string& op, std::uint64_t work,
                           void (*kernel)(const Arguments&, kernels::Workers&)) {
  const DType dtype = dtype_;
  add(op, {work}, [=] {
    Floats p = floats(work), m = floats(work), v = floats(work);
    Tensors g = tensors(work, dtype), copy = tensors(work, dtype);
    for (std::size_t i = 0; i < work; ++i) {
      m->data()[i] = std::abs(m->data()[i]);  // adagrad's is a sum of squares
      v->data()[i] = std::abs(v->data()[i]);
    }
    auto scalars = std::make_shared<kernels::StepScalars>();
    scalars->learning_rate = 1e-6;
    Arguments args;
    args.count = work;
    args.first_moment = m->data();
    args.second_moment = v->data();
    args.scalars = scalars.get();
    if constexpr (requires { args.parameter; }) args.parameter = p->data();
    if constexpr (requires { args.gradient; }) {
      args.gradient = g->data();
      args.gradient_dtype = dtype;
    }
    if constexpr (requires { args.parameter_copy; }) {
      args.copy_dtype = dtype;
      if (dtype != DType::kFp32) args.parameter_copy = copy->data();
    }
    static constexpr double kRatio = 1;
    if constexpr (requires { args.ratio; }) args.ratio = &kRatio;
    return [args, kernel, keep = std::tuple{p, g, m, v, copy}, scalars](Workers& workers) { kernel(args, workers); };
  });
}

void OpMeasurer::states(std::uint64_t work) {
  optimizer<kernels::AdamW>("adamw", work, kernels::cpu::adamw);
  optimizer<kernels::OptimizerStep>("adam", work, kernels::cpu::adam);
  optimizer<kernels::OptimizerStep>("sgd", work, kernels::cpu::sgd);
  optimizer<kernels::OptimizerStep>("lion", work, kernels::cpu::lion);
  optimizer<kernels::OptimizerStep>("adagrad", work, kernels::cpu::adagrad);
  optimizer<kernels::LambMoments>("lamb_moments", work, kernels::cpu::lamb_moments);
  optimizer<kernels::LambNorms>("lamb_norms", work, [](const kernels::LambNorms& args, Workers& workers) {
    // The sums are not needed, but the call has effects that no compiler can leave out: it runs on other threads.
    kernels::cpu::lamb_norms(args, workers);
  });
  optimizer<kernels::LambUpdate>("lamb_update", work, kernels::cpu::lamb_update);
  const DType dtype = dtype_;
  add("sum_of_squares", {work}, [=] {
    Tensors x = tensors(work, dtype);
    Floats sum = floats(1);
    return [=](Workers& workers) {
      sum->data()[0] =
          static_cast<float>(kernels::cpu::sum_of_squares({.dtype = dtype, .count = work, .x = x->data()}, workers));
    };
  });
  add("fill", {work}, [=] {
    Tensors x = tensors(work, dtype);
    return [=](Workers& workers) { kernels::cpu::fill({.dtype = dtype, .count = work, .x = x->data()}, workers); };
  });
}

}  // namespace

std::vector<OpPoint> measure_ops(const RankTeam& team, DType dtype, std::uint64_t most_work, const Progress& progress) {
  OpMeasurer measurer(team, dtype, most_work, progress);
  for (const std::uint64_t work : kWorks) {
    if (!measurer.takes(work)) continue;
    measurer.elementwise(work);
    measurer.states(work);
    for (const std::uint64_t width : kWidths) {
      measurer.norms(work, width);
      measurer.embedding(work, width);
    }
    for (const std::uint64_t head_size : kHeadSizes) measurer.rotary(work, head_size);
    for (const std::uint64_t vocabulary : kVocabularies) {
      if (work >= vocabulary) measurer.cross_entropy(work, vocabulary);
    }
  }
  for (const std::uint64_t seq : kSequences) {
    for (const std::uint64_t head_size : kHeadSizes) measurer.attention(seq, head_size);
  }
  return measurer.take();
}

}  // namespace zeroplan::runtime
