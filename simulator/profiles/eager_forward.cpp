// The forward pass. Scopes and moves follow the life of Python's temporaries: what a statement no longer names is
// freed.
#include <algorithm>

#include "simulator/profiles/eager_model.h"

namespace zeroplan::simulator {

Tensor EagerModel::apply(const Tensor& x, const LinearModule& m, SiteId site, bool flat_input) {
  LinearCall call{.weight = m.weight,
                  .bias = m.bias == kNone ? std::nullopt : std::optional(m.bias),
                  .inputs = m.inputs,
                  .outputs = m.outputs,
                  .weight_is_transposed = m.weight_is_transposed,
                  .flat_input = flat_input,
                  .dequantises = m.quantised,
                  .site = site};
  Tensor y = linear(t_, x, call);
  if (m.adapter_down == kNone) return y;
  Tensor low = linear(
      t_, x,
      {.weight = m.adapter_down, .inputs = m.inputs, .outputs = m.rank, .flat_input = flat_input, .site = kAdapter});
  low = linear(
      t_, low,
      {.weight = m.adapter_up, .inputs = m.rank, .outputs = m.outputs, .flat_input = flat_input, .site = kAdapter});
  low = scale(t_, low, kAdapter);
  return add(t_, y, low, site);
}

Tensor EagerModel::apply(const Tensor& x, const NormModule& m, std::uint64_t width) {
  const std::uint64_t rows = x.elements() / std::max<std::uint64_t>(1, width);
  const bool has_bias = m.bias != kNone;
  if (style_.norm == NormStyle::kLayerNorm) {
    return layer_norm(t_, x, rows, m.weight, has_bias ? std::optional(m.bias) : std::nullopt);
  }
  if (style_.norm == NormStyle::kRms) return rms_norm(t_, x, rows, m.weight);
  if (style_.norm == NormStyle::kRmsOfInput) return rms_norm_of_input(t_, x, rows, m.weight);
  if (style_.norm == NormStyle::kCentred) return centred_norm(t_, x, rows, m.weight);
  return rms_norm_in_fp32(t_, x, rows, m.weight, style_.norm == NormStyle::kRmsOnePlus);
}

/// (x * cos) + (rotate_half(x) * sin), on the first part of each head where the family rotates a part.
Tensor EagerModel::rotate(const Tensor& x, std::uint64_t head_size) {
  const bool by_cat = style_.rotary == RotaryStyle::kPartial;
  const std::uint64_t part = x.elements() / head_size * std::min(head_size, rotary_size_);
  const Tensor rotated = by_cat ? slice(t_, x, part) : x;
  Tensor y = multiply(t_, rotated, cosine_, kRotary);
  Tensor turned;
  {
    const Tensor first = slice(t_, rotated, part / 2);
    Tensor second = slice(t_, rotated, part - part / 2);
    second = scale(t_, second, kRotary);
    turned = concatenate(t_, {second, first}, kRotary);
  }
  turned = multiply(t_, turned, sine_, kRotary);
  y = add(t_, y, turned, kQkv);
  turned = {};
  if (!by_cat) return y;
  const Tensor rest = x.elements() > part ? slice(t_, x, x.elements() - part) : Tensor();
  return rest.defined() ? concatenate(t_, {y, rest}, kQkv) : concatenate(t_, {y}, kQkv);
}

Tensor EagerModel::cross_attend(const Tensor& x, const AttentionModules& a, const BlockContext& context) {
  return attend(x, a, false, {.mask = {}, .bias = context.cross_bias, .cross_bias = {}, .memory = context.memory});
}

Tensor EagerModel::attend(const Tensor& x, const AttentionModules& a, bool causal, const BlockContext& context) {
  const Tensor& memory = context.memory;
  const Tensor& source = memory.defined() ? memory : x;
  Tensor q, k, v;
  if (a.qkv.present()) {
    const Tensor qkv = apply(x, a.qkv, kQkv);
    const std::uint64_t query = tokens_ * a.heads * a.head_size;
    const std::uint64_t other = tokens_ * a.kv_heads * a.head_size;
    if (style_.slices_qkv) {
      q = slice(t_, qkv, query);
      k = slice(t_, qkv, other);
      v = slice(t_, qkv, other);
    } else {
      std::vector<Tensor> parts = split(t_, qkv, {query, other, other});
      q = std::move(parts[0]);
      k = std::move(parts[1]);
      v = std::move(parts[2]);
    }
    if (style_.expands_heads && a.kv_heads != a.heads) {
      q = copy_layout(t_, q, kQkv);
      k = repeat(t_, k, a.heads / a.kv_heads, kQkv);
      v = repeat(t_, v, a.heads / a.kv_heads, kQkv);
    }
  } else if (a.kv_down.present()) {  // latent attention: k has a rotary part that all heads share
    if (a.q_down.present()) {
      Tensor low = apply(x, a.q_down, kQkv);
      low = apply(low, a.q_down_norm, a.q_down.outputs);
      q = apply(low, a.q, kQkv);
    } else {
      q = apply(x, a.q, kQkv);
    }
    const Tensor compressed = apply(x, a.kv_down, kQkv);
    Tensor low = slice(t_, compressed, tokens_ * a.v.inputs);
    const Tensor shared_rotary = slice(t_, compressed, tokens_ * (a.kv_down.outputs - a.v.inputs));
    low = apply(low, a.kv_down_norm, a.v.inputs);
    const Tensor expanded = apply(low, a.v, kQkv);
    const std::uint64_t plain = a.head_size - std::min(a.head_size, rotary_size_);
    const Tensor plain_k = slice(t_, expanded, tokens_ * a.heads * plain);
    v = slice(t_, expanded, tokens_ * a.heads * a.value_size);
    const Tensor rotary_k = repeat(t_, shared_rotary, a.heads, kQkv);
    k = concatenate(t_, {plain_k, rotary_k}, kQkv);
    q = copy_layout(t_, q, kQkv);  // q is concatenated from its two parts as well
  } else {
    q = apply(x, a.q, kQkv);
    if (a.q_norm.present()) q = apply(q, a.q_norm, t_.parameter(a.q_norm.weight).elements);
    k = apply(source, a.k, kQkv);
    if (a.k_norm.present()) k = apply(k, a.k_norm, t_.parameter(a.k_norm.weight).elements);
    v = apply(source, a.v, kQkv);
  }
  if (style_.rotary != RotaryStyle::kAbsent && !a.kv_down.present() && !memory.defined()) {
    Tensor rotated_q = rotate(q, a.head_size);
    Tensor rotated_k = rotate(k, a.head_size);
    q = std::move(rotated_q);
    k = std::move(rotated_k);
  }
  AttentionCall call{.batch = settings_.micro_batch,
                     .heads = a.heads,
                     .kv_heads = style_.expands_heads ? a.heads : a.kv_heads,
                     .queries = settings_.seq,
                     .keys = settings_.seq,
                     .head_size = a.head_size,
                     .value_size = a.value_size,
                     .causal = causal,
                     .fused_layout = a.qkv.present(),
                     .dropout = style_.attention_dropout,
                     .softmax_in_fp32 = style_.softmax_in_fp32,
                     .scaled_in_product = style_.scaled_in_product,
                     .broadcasts_heads = style_.broadcasts_heads,
                     .has_sinks = style_.has_sinks,
                     .mask = context.mask,
                     .bias = context.bias};
  const auto core = [&] {
    const bool eager = settings_.attention == planner::AttentionKind::kEager || style_.eager_only;
    Tensor y = eager ? eager_attention(t_, q, k, v, call) : fused_attention(t_, q, k, v, call);
    q = k = v = {};
    // the 16-bit kernel lays its output out as it found q, which is head by head here; the fp32 one token by token
    const bool by_heads = style_.copies_attention_output && y.dtype() != DType::kFp32;
    if (!eager && by_heads) y = copy_layout(t_, y, kAttentionOutput);
    return y;
  };
  Tensor y = core();
  y = apply(y, a.o, kResidual);
  return dropout(t_, y, style_.residual_dropout, kResidual);
}

Tensor EagerModel::activate(const Tensor& x) {
  if (style_.activation == ActivationStyle::kRelu) return pointwise(t_, x, Keeps::kOutput, kMlpActivation);
  if (style_.activation == ActivationStyle::kFusedKeepsInput) return pointwise(t_, x, Keeps::kInput, kMlpActivation);
  if (style_.activation == ActivationStyle::kQuickGelu) {
    Tensor gate = scale(t_, x, kMlpActivation);
    gate = pointwise(t_, gate, Keeps::kOutput, kMlpActivation);
    return multiply(t_, x, gate, kMlpActivation);
  }
  if (style_.activation == ActivationStyle::kGeluFast) {  // 0.5 * x * (1 + tanh(x * c * (1 + 0.044715 * x * x)))
    const Tensor half = scale(t_, x, kMlpActivation);
    const Tensor outer = scale(t_, x, kMlpActivation);
    Tensor y = multiply(t_, scale(t_, x, kMlpActivation), x, kMlpActivation);
    y = multiply(t_, outer, add_number(t_, y, kMlpActivation), kMlpActivation);
    y = pointwise(t_, y, Keeps::kOutput, kMlpActivation);
    return multiply(t_, half, add_number(t_, y, kMlpActivation), kMlpActivation);
  }
  // 0.5 * x * (1 + tanh(c * (x + 0.044715 * x ** 3)))
  const Tensor half = scale(t_, x, kMlpActivation);
  Tensor y = power(t_, x, kMlpActivation);
  y = scale(t_, y, kMlpActivation);
  y = add(t_, x, y, kMlpActivation);
  y = scale(t_, y, kMlpActivation);
  y = pointwise(t_, y, Keeps::kOutput, kMlpActivation);
  y = add_number(t_, y, kMlpActivation);
  return multiply(t_, half, y, kMlpActivation);
}

Tensor EagerModel::feed_forward(const Tensor& x, const MlpModules& m) {
  Tensor y;
  if (m.gate_up.present()) {
    const Tensor both = apply(x, m.gate_up, kMlpHidden);
    std::vector<Tensor> parts = split(t_, both, {both.elements() / 2, both.elements() / 2});
    y = activate(parts[0]);
    y = multiply(t_, parts[1], y, kMlpHidden);
  } else if (m.gate.present()) {
    y = apply(x, m.gate, kMlpHidden);
    y = activate(y);
    const Tensor up = apply(x, m.up, kMlpHidden);
    y = multiply(t_, y, up, kMlpHidden);
  } else {
    y = apply(x, m.up, kMlpHidden);
    y = activate(y);
  }
  if (style_.casts_mlp_to_weight) y = cast(t_, y, settings_.parameter_dtype, kMlpActivation);
  y = apply(y, m.down, kResidual);
  return dropout(t_, y, style_.residual_dropout, kResidual);
}

/// The router's logits; deepseek computes them outside autocast's reach, from wide copies of input and weight.
Tensor EagerModel::route(const Tensor& x, const LinearModule& router) {
  if (!style_.router_in_fp32) return apply(x, router, kRouter, true);
  const Tensor wide = cast(t_, x, DType::kFp32, kRouter);
  return apply(wide, router, kRouter, true);
}

Tensor EagerModel::gate_experts(const Tensor& gate, const Tensor& up) {
  if (!style_.clamped_experts) {
    const Tensor y = activate(gate);
    return multiply(t_, y, up, kExperts);
  }
  const Tensor clamped_gate = pointwise(t_, gate, Keeps::kInput, kExperts);
  Tensor clamped_up = pointwise(t_, up, Keeps::kInput, kExperts);
  const Tensor opened = pointwise(t_, scale(t_, clamped_gate, kExperts), Keeps::kOutput, kExperts);
  const Tensor gated = multiply(t_, clamped_gate, opened, kExperts);
  clamped_up = add_number(t_, clamped_up, kExperts);
  return multiply(t_, clamped_up, gated, kExperts);
}

/// Experts as two grouped products over tokens sorted by expert (transformers 5).
Tensor EagerModel::mixture(const Tensor& x, const BlockModules& b) {
  const std::uint64_t width = x.elements() / tokens_;
  const std::uint64_t chosen = std::max<std::uint64_t>(1, model_.experts_per_token);
  const std::uint64_t rows = tokens_ * chosen;
  Tensor scores = route(x, b.router);
  scores = softmax(t_, scores, true, kRouter);
  Tensor weights = t_.make(rows, scores.dtype(), kRouter);  // top k values and indices, normalised
  const Tensor chosen_experts = t_.make(rows, DType::kInt64, kRouter);
  t_.record(weights, {&scores}, [n = scores.elements(), dtype = scores.dtype(), chosen_experts](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kRouter);
  });
  weights = pointwise(t_, weights, Keeps::kInput, kRouter);
  weights = cast(t_, weights, x.dtype(), kRouter);
  const Tensor sorted_experts = t_.make(rows, DType::kInt64, kRouter);  // lives as long as this function
  const Tensor order = t_.make(rows, DType::kInt64, kRouter);
  const auto gather = [&](const Tensor& from, std::uint64_t elements, const Tensor& index) {
    Tensor y = t_.make(elements, from.dtype(), kExperts);
    t_.record(y, {&from}, [index, n = from.elements(), dtype = from.dtype()](BackwardCall& c) {
      c.out[0] = c.tape.make(n, dtype, kActivationGradients);
    });
    return y;
  };
  const auto grouped_product = [&](const Tensor& input, ParameterId weight, std::uint64_t outputs) {
    const Tensor w = t_.operand(weight);
    Tensor y = t_.make(rows * outputs, input.dtype(), kExperts);
    t_.record(y, {&input, &w}, [kept = input.detached(), nw = w.elements()](BackwardCall& c) {
      if (c.needs(0)) c.out[0] = c.tape.make(kept.elements(), kept.dtype(), kActivationGradients);
      if (c.needs(1)) c.out[1] = c.tape.make(nw, kept.dtype(), kGradients).as_view();
    });
    // rows that belong to no expert of this rank are set to zero in a copy
    return pointwise(t_, y, Keeps::kNothing, kExperts);
  };
  const Tensor token_of = t_.make(rows, DType::kInt64, kRouter);
  Tensor sorted = gather(x, rows * width, token_of);
  const Tensor sample_weights = gather(weights, rows, order);
  {
    const Tensor before = sorted;  // the same zeros, written in place
    t_.record(sorted, {&before}, [n = sorted.elements(), dtype = sorted.dtype()](BackwardCall& c) {
      c.out[0] = c.tape.make(n, dtype, kActivationGradients);
    });
  }
  Tensor y = grouped_product(sorted, b.experts.gate_up, 2 * b.experts.ffn);
  {
    std::vector<Tensor> parts = split(t_, y, {y.elements() / 2, y.elements() / 2});
    y = gate_experts(parts[0], parts[1]);
  }
  y = grouped_product(y, b.experts.down, width);
  y = multiply(t_, y, sample_weights, kExperts);
  const Tensor inverse = t_.make(rows, DType::kInt64, kRouter);
  y = gather(y, rows * width, inverse);
  Tensor result = t_.make(x.elements(), x.dtype(), kExperts);  // the sum over each token's experts
  t_.record(result, {&y}, [](BackwardCall& c) { c.out[0] = c.grads[0]; });
  y = {};
  if (!b.shared.down.present()) return result;
  Tensor shared = feed_forward(x, b.shared);
  if (b.shared_gate.present()) {
    Tensor gate = apply(x, b.shared_gate, kRouter, true);
    gate = pointwise(t_, gate, Keeps::kOutput, kRouter);
    shared = multiply(t_, gate, shared, kExperts);
  }
  return add(t_, result, shared, kResidual);
}

Tensor EagerModel::block(const Tensor& x, const BlockModules& b, const BlockContext& context) {
  const std::uint64_t width = x.elements() / tokens_;
  const bool causal = style_.causal || b.decoder_of_two;
  const BlockContext self{
      .mask = causal ? context.mask : Tensor(), .bias = context.bias, .cross_bias = {}, .memory = {}};
  const auto mlp = [&](const Tensor& input) {
    return b.experts.present() ? mixture(input, b) : feed_forward(input, b.mlp);
  };
  if (style_.norm_after_sublayer) {
    Tensor h = attend(x, b.attention, causal, self);
    h = add(t_, h, x, kResidual);
    h = apply(h, b.after_attention, width);
    Tensor m = mlp(h);
    m = add(t_, m, h, kResidual);
    return apply(m, b.after_mlp, width);
  }
  if (style_.parallel_residual) {
    const Tensor n = apply(x, b.before_attention, width);
    const Tensor a = attend(n, b.attention, causal, self);
    const Tensor m = b.before_mlp.present() ? mlp(apply(x, b.before_mlp, width)) : mlp(n);
    const Tensor sum = add(t_, m, a, kResidual);
    return add(t_, sum, x, kResidual);
  }
  Tensor h;
  {
    const Tensor n = b.before_attention.present() ? apply(x, b.before_attention, width) : x;
    h = attend(n, b.attention, causal, self);
  }
  if (b.after_attention.present()) h = apply(h, b.after_attention, width);
  h = add(t_, x, h, kResidual);
  if (b.cross.present()) {
    const Tensor n = apply(h, b.before_cross, width);
    const Tensor c = cross_attend(n, b.cross, context);
    h = add(t_, h, c, kResidual);
  }
  Tensor m;
  {
    const Tensor n = b.before_mlp.present() ? apply(h, b.before_mlp, width) : h;
    m = mlp(n);
  }
  if (b.after_mlp.present()) m = apply(m, b.after_mlp, width);
  return add(t_, h, m, kResidual);
}

Tensor EagerModel::checkpointed_block(const Tensor& x, const BlockModules& b, const BlockContext& context) {
  // mask and rotary tables are arguments too: the segment holds them until it has run again
  const auto segment = [this, &b, mask = context.mask, cosine = cosine_, sine = sine_](const std::vector<Tensor>& in) {
    const Tensor outer_cosine = std::exchange(cosine_, cosine);
    const Tensor outer_sine = std::exchange(sine_, sine);
    Tensor y = block(in[0], b, {.mask = mask, .bias = in[1], .cross_bias = in[2], .memory = in[3]});
    cosine_ = outer_cosine;
    sine_ = outer_sine;
    return y;
  };
  return t_.checkpoint({x, context.bias, context.cross_bias, context.memory}, segment);
}

void EagerModel::make_position_bias(const BlockModules& b, BlockContext& context) {
  const std::uint64_t pairs = settings_.seq * settings_.seq;
  const auto look_up = [this, pairs, &b](const std::vector<Tensor>&) {
    const Tensor buckets = t_.make(pairs, DType::kInt64, kAttentionMask);
    return embedding(t_, buckets, b.relative_bias, b.attention.heads);
  };
  const bool recomputed = settings_.recompute == planner::Recompute::kFull;  // as part of the stack's first block
  context.bias = recomputed ? t_.checkpoint({}, look_up) : look_up({});
  if (!b.decoder_of_two) return;
  const DType query_type = settings_.autocast ? DType::kBf16 : settings_.parameter_dtype;
  context.cross_bias = t_.make(pairs * b.attention.heads, query_type, kAttentionMask);
  if (recomputed) {  // the library asks for a gradient then
    t_.record(
        context.cross_bias, {}, [](BackwardCall&) {}, true);
  }
}

Tensor EagerModel::embed(const Embeddings& e, const Tensor& ids) {
  const auto width = [&](ParameterId id) { return shapes_[id][1]; };
  Tensor x = embedding(t_, ids, e.tables.front(), width(e.tables.front()));
  for (std::size_t i = 1; i < e.tables.size(); ++i) {
    const Tensor positions = t_.make(settings_.seq, DType::kInt64, kInputs);
    const Tensor more = embedding(t_, positions, e.tables[i], width(e.tables[i]));
    x = add(t_, x, more, kResidual);
  }
  if (e.norm.present()) x = apply(x, e.norm, width(e.tables.front()));
  if (style_.norm == NormStyle::kRmsOnePlus) x = scale(t_, x, kResidual);  // gemma scales by the root of the width
  return dropout(t_, x, style_.embedding_dropout, kResidual);
}

Tensor EagerModel::head(Tensor x, const Head& h, Tensor& logits) {
  const std::uint64_t width = x.elements() / tokens_;
  if (h.norm.present()) x = apply(x, h.norm, width);
  Tensor y = x;  // x is the model's output, which lives until the loss has been computed
  if (h.dense.present()) {
    y = apply(y, h.dense, kNormOutput);
    if (h.dense_norm.present()) {
      y = pointwise(t_, y, Keeps::kInput, kMlpActivation);
      y = apply(y, h.dense_norm, width);
    }
  }
  if (!h.output.present()) return mean_rows(t_, y, 1, kLossTerms);
  if (style_.scales_head_input) y = scale(t_, y, kResidual);
  logits = apply(y, h.output, kLogits);
  y = {};
  if (style_.scales_logits) logits = scale(t_, logits, kLogits);
  if (style_.logit_softcap > 0) {
    logits = scale(t_, logits, kLogits);
    logits = pointwise(t_, logits, Keeps::kOutput, kLogits);
    logits = scale(t_, logits, kLogits);
  }
  return cross_entropy(t_, logits, tokens_, style_.upcasts_loss);
}

Tensor EagerModel::run_unit(std::size_t unit, Tensor input, UnitHooks& hooks,
                            const std::function<Tensor(Tensor)>& body) {
  if (input.defined()) {  // identity: the framework's hook on the gradient of the input
    const Tensor before = input;
    t_.record(input, {&before}, [&hooks, unit](BackwardCall& c) {
      c.out[0] = std::move(c.grads[0]);
      hooks.after_backward(unit);
    });
  }
  hooks.before_forward(unit);
  Tensor y = body(std::move(input));
  hooks.after_forward(unit);
  const Tensor inner = y;
  t_.record(y, {&inner}, [&hooks, unit](BackwardCall& c) {
    hooks.before_backward(unit);
    c.out[0] = std::move(c.grads[0]);
  });
  return y;
}

ForwardResult EagerModel::forward(UnitHooks& hooks) {
  t_.set_gradient_hook([&hooks](ParameterId id) { hooks.gradient_ready(id); });
  if (settings_.autocast) t_.enter_autocast();
  batch_ = t_.make(tokens_, DType::kInt64, kInputs);  // the batch lives until the next one
  const bool eager = settings_.attention == planner::AttentionKind::kEager || style_.eager_only;
  const bool two_stacks =
      std::any_of(blocks_.begin(), blocks_.end(), [](const BlockModules& b) { return b.decoder_of_two; });
  ForwardResult result;
  Tensor x;
  BlockContext context;
  const auto causal_mask = [&](DType dtype) {
    return t_.make(settings_.micro_batch * settings_.seq * settings_.seq, dtype, kAttentionMask);
  };
  const auto has_block = [&](std::size_t unit) { return blocks_[unit].attention.present(); };
  for (std::size_t unit = 0; unit < blocks_.size(); ++unit) {
    const models::UnitKind kind = model_.units[unit].kind;
    if (kind == models::UnitKind::kEmbedding && !x.defined() && !embeddings_.tables.empty() &&
        model_.units[unit].name.find("vision") == std::string::npos) {
      x = run_unit(unit, {}, hooks, [&](const Tensor& /*none*/) { return embed(embeddings_, batch_); });
      if (style_.rotary != RotaryStyle::kAbsent) {
        const std::uint64_t n = settings_.seq * std::max<std::uint64_t>(1, rotary_size_);
        cosine_ = t_.make(n, x.dtype(), kRotary);
        sine_ = t_.make(n, x.dtype(), kRotary);
      }
      if (eager && style_.causal) context.mask = causal_mask(x.dtype());
    } else if (has_block(unit)) {
      const BlockModules& b = blocks_[unit];
      if (b.relative_bias != kNone) {  // one bias for all blocks of a stack
        if (b.decoder_of_two && !context.memory.defined()) {
          context.memory = std::move(x);
          x = run_unit(unit, {}, hooks, [&](const Tensor& /*none*/) { return embed(embeddings_, batch_); });
          if (eager) context.mask = causal_mask(x.dtype());
        }
        make_position_bias(b, context);
      }
      x = run_unit(unit, x, hooks, [&](const Tensor& input) {
        return settings_.recompute == planner::Recompute::kFull ? checkpointed_block(input, b, context)
                                                                : block(input, b, context);
      });
    } else if (kind == models::UnitKind::kHead) {
      context = {.mask = {}, .bias = {}, .cross_bias = {}, .memory = context.memory};  // locals of the body
      cosine_ = sine_ = {};
      x = run_unit(unit, std::move(x), hooks,
                   [&](Tensor input) { return head(std::move(input), head_, result.logits); });
    } else if (other_norms_[unit].present() && x.defined() && two_stacks) {
      x = run_unit(unit, x, hooks,
                   [&](const Tensor& input) { return apply(input, other_norms_[unit], input.elements() / tokens_); });
    }
  }
  cosine_ = sine_ = {};
  if (settings_.autocast) t_.exit_autocast();
  result.loss = std::move(x);
  return result;
}

}  // namespace zeroplan::simulator
