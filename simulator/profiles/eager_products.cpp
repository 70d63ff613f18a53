// Matrix products, attention, embedding and loss.
#include <algorithm>

#include "simulator/profiles/eager_ops.h"

namespace zeroplan::simulator {
namespace {

constexpr std::uint64_t kStatisticsRounding = 32;  // the memory-efficient kernel pads its log-sum-exp rows

}  // namespace

Tensor linear(EagerTape& t, const Tensor& x, const LinearCall& call) {
  const Tensor input = autocast_to_16bit(t, x);
  const Tensor weight = t.cast_operand(call.weight, kAutocastCopies);
  const Tensor bias = call.bias ? t.cast_operand(*call.bias, kAutocastCopies) : Tensor();
  const std::uint64_t rows = input.elements() / std::max<std::uint64_t>(1, call.inputs);
  Tensor y = t.make(rows * call.outputs, input.dtype(), call.site);
  if (call.dequantises) t.make(weight.elements(), input.dtype(), kWeights);
  const Tensor keep_input = weight.requires_grad() ? input.detached() : Tensor();
  const Tensor keep_weight = input.requires_grad() ? weight.detached() : Tensor();
  t.record(y, {&input, &weight, &bias},
           [keep_input, keep_weight, n = input.elements(), dtype = input.dtype(), nw = weight.elements(),
            call](BackwardCall& c) {
             const auto input_gradient = [&] {
               if (!c.needs(0)) return;
               const Tensor expanded = call.dequantises ? c.tape.make(nw, dtype, kWeights) : Tensor();
               Tensor g = c.tape.make(n, dtype, kActivationGradients);
               c.out[0] = call.flat_input ? g : g.as_view();
             };
             const bool first = call.bias.has_value();  // addmm computes the input's gradient first, mm the weight's
             if (first) input_gradient();
             if (c.needs(1)) {
               Tensor g = c.tape.make(nw, dtype, kGradients);
               c.out[1] = call.weight_is_transposed ? g.as_view() : g;
             }
             if (!first) input_gradient();
             if (c.needs(2)) c.out[2] = c.grads[0];  // summed over rows by the engine
           });
  return y;
}

Tensor batched_product(EagerTape& t, const Tensor& a, const Tensor& b, std::uint64_t elements, SiteId site) {
  const Tensor x = autocast_to_16bit(t, a);
  const Tensor y = autocast_to_16bit(t, b);
  Tensor z = t.make(elements, x.dtype(), site);
  const Tensor keep_x = y.requires_grad() ? x.detached() : Tensor();
  const Tensor keep_y = x.requires_grad() ? y.detached() : Tensor();
  t.record(z, {&x, &y},
           [keep_x, keep_y, nx = x.elements(), ny = y.elements(), dtype = x.dtype(), site](BackwardCall& c) {
             if (c.needs(1)) c.out[1] = c.tape.make(ny, dtype, ny > nx ? site : SiteId{kActivationGradients});
             if (c.needs(0)) c.out[0] = c.tape.make(nx, dtype, kActivationGradients);
           });
  return z;
}

namespace {

/// softmax with a stated type, which autocast leaves alone.
Tensor softmax_as_is(EagerTape& t, const Tensor& wide, SiteId site) {
  Tensor y = t.make(wide.elements(), wide.dtype(), site);
  t.record(y, {&wide}, [kept = y, n = wide.elements(), dtype = wide.dtype(), site](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, site);
  });
  return y;
}

/// cat of the scores and one sink a row.
Tensor widen_rows(EagerTape& t, const Tensor& x, std::uint64_t rows) {
  Tensor y = t.make(x.elements() + rows, x.dtype(), kAttentionScores);
  t.record(y, {&x}, [n = x.elements()](BackwardCall& c) { c.out[0] = c.grads[0].as_slice(n); });
  return y;
}

}  // namespace

Tensor softmax(EagerTape& t, const Tensor& x, bool upcast, SiteId site) {
  return softmax_as_is(t, upcast || t.autocast() ? cast(t, x, DType::kFp32, site) : x, site);
}

Tensor embedding(EagerTape& t, const Tensor& indices, ParameterId table, std::uint64_t width) {
  const Tensor weight = t.operand(table);
  Tensor y = t.make(indices.elements() * width, weight.dtype(), kResidual);
  t.record(y, {&weight}, [indices, width, elements = weight.elements(), dtype = weight.dtype()](BackwardCall& c) {
    constexpr std::uint64_t kSimpleKernel = 3072;  // up to so many indices no sorting is needed
    constexpr std::uint64_t kRowsPerThread = 10;
    const std::uint64_t n = indices.elements();
    c.out[0] = c.tape.make(elements, dtype, kGradients);
    if (n <= kSimpleKernel) return;
    const Tensor sorted = c.tape.make(n, DType::kInt64, kEmbeddingTemporaries);
    const Tensor order = c.tape.make(n, DType::kInt64, kEmbeddingTemporaries);
    const Tensor keys = c.tape.make(2 * n, DType::kInt64, kEmbeddingTemporaries);
    const std::uint64_t segments = std::min(n, elements / std::max<std::uint64_t>(1, width));
    const std::uint64_t partial = n / kRowsPerThread + segments;
    const std::uint64_t padded = (width + 31) / 32 * 32;  // rows of whole warps
    const Tensor sums = c.tape.make(partial * padded, DType::kFp32, kEmbeddingTemporaries);
  });
  return y;
}

namespace {

/// x laid out head by head, as a batched product wants it: tokens lie outside heads, so that more than one sequence is
/// copied.
Tensor by_heads(EagerTape& t, const Tensor& x, std::uint64_t batch) {
  return batch > 1 ? copy_layout(t, x, kQkv) : x;
}

void add_in_place(EagerTape& t, Tensor& x, const Tensor& y) {
  const Tensor before = x;
  t.record(x, {&before, &y}, [](BackwardCall& c) {
    if (c.needs(0)) c.out[0] = c.grads[0];
    if (c.needs(1)) c.out[1] = c.grads[0];
  });
}

/// The bias as scaled_dot_product_attention gets it: with the causal part masked out (`where` keeps its condition), in
/// the type that autocast gives it.
Tensor additive_bias(EagerTape& t, const AttentionCall& call) {
  if (!call.bias.defined() || !call.causal) return autocast_to_16bit(t, call.bias);
  const Tensor allowed = t.make(call.queries * call.keys, DType::kBool, kAttentionMask);
  Tensor y = t.make(call.bias.elements(), call.bias.dtype(), kAttentionMask);
  t.record(y, {&call.bias}, [allowed, n = y.elements(), dtype = y.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return autocast_to_16bit(t, y);
}

/// The composite `_scaled_dot_product_attention_math`: everything in fp32, scores in memory. The casts of q, k and v
/// live until it returns.
Tensor math_attention(EagerTape& t, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
                      const AttentionCall& call) {
  const DType type = query.dtype();
  const std::uint64_t group = call.heads / std::max<std::uint64_t>(1, call.kv_heads);
  const std::uint64_t scores = call.batch * call.heads * call.queries * call.keys;
  const Tensor q = cast(t, query, DType::kFp32, kQkv);
  const Tensor k = cast(t, key, DType::kFp32, kQkv);
  const Tensor v = cast(t, value, DType::kFp32, kQkv);
  const Tensor scaled_q = scale(t, q, kQkv);
  const Tensor mask =
      !bias.defined() && call.causal ? t.make(call.queries * call.keys, DType::kFp32, kAttentionMask) : bias;
  const Tensor wide_k = repeat(t, k, group, kQkv);
  const Tensor wide_v = repeat(t, v, group, kQkv);
  Tensor a;
  {
    const Tensor rows_q = by_heads(t, scaled_q, call.batch);
    Tensor rows_k = scale(t, wide_k, kQkv);
    if (group == 1) rows_k = by_heads(t, rows_k, call.batch);
    a = batched_product(t, rows_q, rows_k, scores, kAttentionScores);
  }
  if (mask.defined()) add_in_place(t, a, mask);
  a = softmax(t, a, false, kAttentionScores);
  Tensor y;
  {
    const Tensor rows_v = group == 1 ? by_heads(t, wide_v, call.batch) : wide_v;
    y = batched_product(t, a, rows_v, call.batch * call.queries * call.heads * call.value_size, kAttentionOutput);
  }
  y = cast(t, y, type, kAttentionOutput);
  const Tensor weights = cast(t, a.detached(), type, kAttentionScores);  // its second result, which nobody reads
  return y;
}

}  // namespace

Tensor fused_attention(EagerTape& t, const Tensor& query, const Tensor& key, const Tensor& value,
                       const AttentionCall& call) {
  const Tensor q = autocast_to_16bit(t, query);
  const Tensor k = autocast_to_16bit(t, key);
  const Tensor v = autocast_to_16bit(t, value);
  const std::uint64_t rows = call.batch * call.queries;
  const std::uint64_t out_elements = rows * call.heads * call.value_size;
  const bool half = q.dtype() != DType::kFp32;
  const bool grouped = call.kv_heads != call.heads;
  const std::uint64_t group = call.heads / std::max<std::uint64_t>(1, call.kv_heads);
  // no fp32 kernel takes grouped heads, and none a mask that asks for a gradient
  const Tensor bias = additive_bias(t, call);
  if ((grouped && (!half || call.broadcasts_heads)) || bias.requires_grad()) {
    const bool outer = t.suspend_autocast(true);  // it is one operator to autocast
    const Tensor y = math_attention(t, q, k, v, bias, call);
    t.suspend_autocast(outer);
    return copy_layout(t, y, kAttentionOutput);
  }
  Tensor y = t.make(out_elements, q.dtype(), kAttentionOutput);
  const std::uint64_t statistics = half ? rows * call.heads
                                        : call.batch * call.heads *
                                              ((call.queries + kStatisticsRounding - 1) / kStatisticsRounding) *
                                              kStatisticsRounding;
  const Tensor log_sum_exp = t.make(statistics, DType::kFp32, kAttentionStatistics);
  const Tensor seed = t.make(1, DType::kInt64, kAttentionStatistics);
  const Tensor offset = t.make(1, DType::kInt64, kAttentionStatistics);
  t.record(y, {&q, &k, &v},
           [q = q.detached(), k = k.detached(), v = v.detached(), y, log_sum_exp, seed, offset, bias, half, grouped,
            group, statistics](BackwardCall& c) {
             const auto gradient = [&](std::uint64_t n, DType dtype) {
               return c.tape.make(n, dtype, kActivationGradients);
             };
             c.out[0] = gradient(q.elements(), q.dtype());
             c.out[1] = gradient(k.elements(), k.dtype());
             c.out[2] = gradient(v.elements(), v.dtype());
             // working set of the kernel: rows of (out x grad), and in 16 bits queries' gradient in fp32; grouped heads
             // expand k and v
             const Tensor delta = gradient(statistics, DType::kFp32);
             const Tensor wide_q = half ? gradient(q.elements(), DType::kFp32) : Tensor();
             const Tensor wide_k = half && grouped ? gradient(k.elements() * group, k.dtype()) : Tensor();
             const Tensor wide_v = half && grouped ? gradient(v.elements() * group, v.dtype()) : Tensor();
           });
  return y;
}

Tensor eager_attention(EagerTape& t, const Tensor& q, const Tensor& key, const Tensor& value,
                       const AttentionCall& call) {
  const std::uint64_t group = call.heads / std::max<std::uint64_t>(1, call.kv_heads);
  const std::uint64_t scores = call.batch * call.heads * call.queries * call.keys;
  const DType value_type = value.dtype();
  Tensor v = repeat(t, value, group, kQkv);
  Tensor a;
  {
    const Tensor k = repeat(t, key, group, kQkv);
    // heads lie within tokens, so that more than one sequence cannot be viewed as one batch of heads
    const bool copies = call.batch > 1;
    const Tensor q16 = autocast_to_16bit(t, q);
    const Tensor k16 = autocast_to_16bit(t, k);
    const Tensor q_rows = copies ? copy_layout(t, q16, kQkv) : q16;
    const Tensor k_rows = copies && group == 1 ? copy_layout(t, k16, kQkv) : k16;
    a = batched_product(t, q_rows, k_rows, scores, kAttentionScores);
  }
  if (!call.scaled_in_product) a = scale(t, a, kAttentionScores);
  if (call.bias.defined()) a = add(t, a, call.bias, kAttentionScores);
  if (call.mask.defined()) a = add(t, a, call.mask, kAttentionScores);
  if (call.has_sinks) {
    const std::uint64_t rows = call.batch * call.heads * call.queries;
    a = widen_rows(t, a, rows);
    a = add_number(t, a, kAttentionScores);  // less the largest of each row
    a = slice(t, softmax_as_is(t, a, kAttentionScores), scores);
  } else {
    a = softmax(t, a, call.softmax_in_fp32, kAttentionScores);
  }
  a = cast(t, a, value_type, kAttentionScores);
  a = dropout(t, a, call.dropout, kAttentionScores);
  const Tensor v_rows = call.batch > 1 && group == 1 ? copy_layout(t, v, kQkv) : v;
  v = {};
  Tensor y = batched_product(t, a, v_rows, call.batch * call.queries * call.heads * call.value_size, kAttentionOutput);
  a = {};
  return copy_layout(t, y, kAttentionOutput);
}

Tensor cross_entropy(EagerTape& t, const Tensor& logits, std::uint64_t tokens, bool upcast) {
  const Tensor targets = t.make(tokens, DType::kInt64, kInputs);
  const Tensor wide = upcast ? cast(t, logits, DType::kFp32, kLogits) : logits;
  Tensor probabilities = t.make(wide.elements(), wide.dtype(), kLossTerms);  // log_softmax in the type it is given
  t.record(probabilities, {&wide}, [kept = probabilities, n = wide.elements(), dtype = wide.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kLossTerms);
  });
  // nll_loss is on autocast's fp32 list, so that 16-bit probabilities get a wide copy, which it keeps
  const Tensor input = t.autocast() ? cast(t, probabilities, DType::kFp32, kLossTerms) : probabilities;
  probabilities = {};
  Tensor loss = t.make(1, input.dtype(), kLossTerms);
  const Tensor weight = t.make(1, input.dtype(), kLossTerms);
  t.record(loss, {&input}, [kept = input.detached(), targets, weight](BackwardCall& c) {
    c.out[0] = c.tape.make(kept.elements(), kept.dtype(), kLossTerms);
  });
  return loss;
}

}  // namespace zeroplan::simulator
