// Pointwise operators, shape operators and the norms that are made of them.
#include <algorithm>

#include "simulator/profiles/eager_ops.h"

namespace zeroplan::simulator {
namespace {

DType promoted(DType a, DType b) {
  if (a == b) return a;
  return zeroplan::size_of(a) >= zeroplan::size_of(b) ? a : b;
}

}  // namespace

Tensor cast(EagerTape& t, const Tensor& x, DType dtype, SiteId site) {
  if (x.dtype() == dtype) return x;
  Tensor y = t.make(x.elements(), dtype, site);
  t.record(y, {&x}, [](BackwardCall& c) { c.out[0] = std::move(c.grads[0]); });  // the engine casts back
  return y;
}

Tensor autocast_to_16bit(EagerTape& t, const Tensor& x) {
  return t.autocast() && x.defined() ? cast(t, x, DType::kBf16, kCastActivations) : x;
}

Tensor add(EagerTape& t, const Tensor& x, const Tensor& y, SiteId site) {
  Tensor z = t.make(std::max(x.elements(), y.elements()), promoted(x.dtype(), y.dtype()), site);
  t.record(z, {&x, &y}, [](BackwardCall& c) {
    if (c.needs(0)) c.out[0] = c.grads[0];
    if (c.needs(1)) c.out[1] = c.grads[0];
  });
  return z;
}

Tensor multiply(EagerTape& t, const Tensor& x, const Tensor& y, SiteId site) {
  Tensor z = t.make(std::max(x.elements(), y.elements()), promoted(x.dtype(), y.dtype()), site);
  const Tensor keep_x = y.requires_grad() ? x.detached() : Tensor();
  const Tensor keep_y = x.requires_grad() ? y.detached() : Tensor();
  t.record(z, {&x, &y}, [keep_x, keep_y, dtype = z.dtype(), n = z.elements()](BackwardCall& c) {
    if (c.needs(1))
      c.out[1] = c.tape.make(n, dtype, kActivationGradients);  // grad * x, summed by the engine where y was broadcast
    if (c.needs(0)) c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return z;
}

Tensor scale(EagerTape& t, const Tensor& x, SiteId site) {
  Tensor y = t.make(x.elements(), x.dtype(), site);
  t.record(y, {&x}, [n = x.elements(), dtype = x.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return y;
}

Tensor add_number(EagerTape& t, const Tensor& x, SiteId site) {
  Tensor y = t.make(x.elements(), x.dtype(), site);
  t.record(y, {&x}, [](BackwardCall& c) { c.out[0] = std::move(c.grads[0]); });
  return y;
}

Tensor pointwise(EagerTape& t, const Tensor& x, Keeps keeps, SiteId site) {
  Tensor y = t.make(x.elements(), x.dtype(), site);
  Tensor kept;
  if (keeps == Keeps::kInput) kept = x.detached();
  if (keeps == Keeps::kOutput) kept = y;
  t.record(y, {&x}, [kept, n = x.elements(), dtype = x.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return y;
}

Tensor power(EagerTape& t, const Tensor& x, SiteId site) {
  const Tensor base = t.autocast() ? cast(t, x, DType::kFp32, kMlpActivation) : x;  // pow is on autocast's fp32 list
  Tensor y = t.make(base.elements(), base.dtype(), site);
  t.record(y, {&base}, [kept = base.detached(), n = base.elements(), dtype = base.dtype()](BackwardCall& c) {
    const Tensor lower = c.tape.make(n, dtype, kActivationGradients);   // x ** (n - 1)
    const Tensor scaled = c.tape.make(n, dtype, kActivationGradients);  // n * that
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);             // grad * that
  });
  return y;
}

Tensor reciprocal_root(EagerTape& t, const Tensor& x, SiteId site) {
  Tensor y = t.make(x.elements(), x.dtype(), site);
  t.record(y, {&x}, [kept = y, n = x.elements(), dtype = x.dtype()](BackwardCall& c) {
    const Tensor half = c.tape.make(n, dtype, kActivationGradients);
    const Tensor cube = c.tape.make(n, dtype, kActivationGradients);
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return y;
}

Tensor mean_rows(EagerTape& t, const Tensor& x, std::uint64_t rows, SiteId site) {
  Tensor y = t.make(rows, x.dtype(), site);
  t.record(y, {&x}, [n = x.elements(), dtype = x.dtype()](BackwardCall& c) {  // expand, then divide
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return y;
}

Tensor slice(EagerTape& t, const Tensor& x, std::uint64_t elements) {
  Tensor y = x.detached().as_slice(elements);
  t.record(y, {&x}, [n = x.elements(), dtype = x.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return y;
}

std::vector<Tensor> split(EagerTape& t, const Tensor& x, const std::vector<std::uint64_t>& parts) {
  std::vector<Tensor> y;
  for (const std::uint64_t n : parts) y.push_back(x.detached().as_slice(n));
  const auto gradient = [n = x.elements(), dtype = x.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  };
  if (y.size() == 1) t.record({&y[0]}, {&x}, gradient);
  if (y.size() == 2) t.record({&y[0], &y[1]}, {&x}, gradient);
  if (y.size() == 3) t.record({&y[0], &y[1], &y[2]}, {&x}, gradient);
  return y;
}

Tensor concatenate(EagerTape& t, const std::vector<Tensor>& parts, SiteId site) {
  std::uint64_t n = 0;
  for (const Tensor& p : parts) n += p.elements();
  Tensor y = t.make(n, parts.front().dtype(), site);
  const Tensor& a = parts[0];
  const Tensor& b = parts.size() > 1 ? parts[1] : parts[0];
  t.record(y, {&a, &b}, [na = a.elements(), nb = b.elements()](BackwardCall& c) {
    if (c.needs(0)) c.out[0] = c.grads[0].as_slice(na);
    if (c.needs(1)) c.out[1] = c.grads[0].as_slice(nb);
  });
  return y;
}

Tensor copy_layout(EagerTape& t, const Tensor& x, SiteId site) {
  Tensor y = t.make(x.elements(), x.dtype(), site);
  t.record(y, {&x}, [](BackwardCall& c) { c.out[0] = std::move(c.grads[0]); });
  return y;
}

Tensor repeat(EagerTape& t, const Tensor& x, std::uint64_t times, SiteId site) {
  if (times == 1) return x;
  Tensor y = t.make(x.elements() * times, x.dtype(), site);
  t.record(y, {&x}, [n = x.elements(), dtype = x.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return y;
}

Tensor dropout(EagerTape& t, const Tensor& x, double probability, SiteId site) {
  if (probability <= 0) return x;
  Tensor y = t.make(x.elements(), x.dtype(), site);
  Tensor mask = t.make(x.elements(), DType::kBool, kDropoutMasks);
  t.record(y, {&x}, [mask, n = x.elements(), dtype = x.dtype()](BackwardCall& c) {
    c.out[0] = c.tape.make(n, dtype, kActivationGradients);
  });
  return y;
}

Tensor layer_norm(EagerTape& t, const Tensor& x, std::uint64_t rows, std::optional<ParameterId> weight,
                  std::optional<ParameterId> bias) {
  const Tensor input = t.autocast() ? cast(t, x, DType::kFp32, kNormInternals) : x;
  const Tensor w = weight ? t.operand(*weight) : Tensor();
  const Tensor b = bias ? t.operand(*bias) : Tensor();
  Tensor y = t.make(input.elements(), input.dtype(), kNormOutput);
  const Tensor mean = t.make(rows, DType::kFp32, kNormInternals);
  const Tensor deviation = t.make(rows, DType::kFp32, kNormInternals);
  t.record(y, {&input, &w, &b}, [kept = input.detached(), mean, deviation, nw = w.elements()](BackwardCall& c) {
    const DType dtype = kept.dtype();
    if (c.needs(0)) c.out[0] = c.tape.make(kept.elements(), dtype, kActivationGradients);
    if (c.needs(1)) c.out[1] = c.tape.make(nw, dtype, kGradients);
    if (c.needs(2)) c.out[2] = c.tape.make(nw, dtype, kGradients);
  });
  return y;
}

namespace {

/// 1 / sqrt(mean(x^2) + eps).
Tensor root_of_rows(EagerTape& t, const Tensor& wide, std::uint64_t rows) {
  Tensor variance = mean_rows(t, power(t, wide, kNormInternals), rows, kNormInternals);
  variance = add_number(t, variance, kNormInternals);
  return reciprocal_root(t, variance, kNormInternals);
}

/// x / sqrt(mean(x^2) + eps) in fp32.
Tensor normalised(EagerTape& t, const Tensor& x, std::uint64_t rows) {
  const Tensor wide = cast(t, x, DType::kFp32, kNormInternals);
  const Tensor root = root_of_rows(t, wide, rows);
  return multiply(t, wide, root, kNormInternals);
}

}  // namespace

Tensor centred_norm(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight) {
  Tensor wide = cast(t, x, DType::kFp32, kNormInternals);
  const Tensor mean = mean_rows(t, wide, rows, kNormInternals);
  const Tensor root = root_of_rows(t, add(t, wide, mean, kNormInternals), rows);
  Tensor y = add(t, wide, mean, kNormInternals);
  wide = {};
  y = multiply(t, y, root, kNormInternals);
  y = multiply(t, cast(t, t.operand(weight), DType::kFp32, kNormInternals), y, kNormInternals);
  return cast(t, y, x.dtype(), kNormOutput);
}

Tensor rms_norm(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight) {
  Tensor y = normalised(t, x, rows);
  y = cast(t, y, x.dtype(), kNormInternals);
  return multiply(t, t.operand(weight), y, kNormOutput);
}

Tensor rms_norm_of_input(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight) {
  const Tensor root = root_of_rows(t, cast(t, x, DType::kFp32, kNormInternals), rows);
  Tensor y = multiply(t, x, root, kNormInternals);
  const Tensor w = t.operand(weight);
  y = cast(t, y, w.dtype(), kNormInternals);
  return multiply(t, w, y, kNormOutput);
}

Tensor rms_norm_in_fp32(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight, bool one_plus) {
  Tensor y = normalised(t, x, rows);
  Tensor w = cast(t, t.operand(weight), DType::kFp32, kNormInternals);
  if (one_plus) w = add_number(t, w, kNormInternals);
  y = multiply(t, y, w, kNormInternals);
  return cast(t, y, x.dtype(), kNormOutput);
}

}  // namespace zeroplan::simulator
