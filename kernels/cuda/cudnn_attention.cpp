// The graphs are those that cuDNN's documentation gives for scaled dot-product attention (developer guide, "Attention",
// forward and backward), written operation by operation: cuDNN recognises the whole and runs one fused kernel.
#include "kernels/cuda/cudnn_attention.h"

#include <array>
#include <compare>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/cuda/cudnn_graph.h"
#include "models/core/error.h"

namespace zeroplan::kernels::cuda {
namespace {

std::int64_t number(std::size_t n) {
  return static_cast<std::int64_t>(n);
}

/// What a plan depends on. Strides that a pass does not have are 0.
struct Key {
  DType dtype;
  std::size_t sequences, length, heads, kv_heads, head_size;
  std::array<std::size_t, 8> strides;
  auto operator<=>(const Key&) const = default;
};

Key key_of(const AttentionForward& args) {
  const AttentionShape& s = args.shape;
  return {s.dtype,
          s.sequences,
          s.sequence_length,
          s.heads,
          s.kv_heads,
          s.head_size,
          {args.q_stride, args.k_stride, args.v_stride, args.out_stride}};
}

Key key_of(const AttentionBackward& args) {
  const AttentionShape& s = args.shape;
  return {s.dtype,
          s.sequences,
          s.sequence_length,
          s.heads,
          s.kv_heads,
          s.head_size,
          {args.q_stride, args.k_stride, args.v_stride, args.out_stride, args.d_out_stride, args.d_q_stride,
           args.d_k_stride, args.d_v_stride}};
}

/// Extents of the graphs' tensors for a number of sequences.
class Tensors {
 public:
  Tensors(CudnnGraph& graph, const Key& key, std::size_t sequences)
      : graph_(graph),
        type_(key.dtype == DType::kBf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF),
        b_(number(sequences)),
        t_(number(key.length)),
        h_(number(key.heads)),
        kv_(number(key.kv_heads)),
        d_(number(key.head_size)) {}

  /// Rows of the query heads in a tensor whose rows are `stride` apart.
  CudnnTensor wide(std::size_t stride) { return rows(h_, stride); }
  CudnnTensor narrow(std::size_t stride) { return rows(kv_, stride); }
  /// The same memory as `narrow`, with the last two extents exchanged.
  CudnnTensor narrow_transposed(std::size_t stride) {
    return graph_.tensor(type_, {b_, kv_, d_, t_}, {t_ * number(stride), d_, 1, number(stride)});
  }
  /// An intermediate with the extents of `narrow`, from a transposed one.
  CudnnTensor narrow_view(std::size_t stride) {
    return graph_.intermediate(type_, {b_, kv_, t_, d_}, {t_ * number(stride), d_, number(stride), 1});
  }
  /// [sequences, heads, length, 1] in memory.
  CudnnTensor statistics() { return graph_.tensor(CUDNN_DATA_FLOAT, {b_, h_, t_, 1}, {h_ * t_, t_, 1, 1}); }
  CudnnTensor statistics_between() {
    return graph_.intermediate(CUDNN_DATA_FLOAT, {b_, h_, t_, 1}, {h_ * t_, t_, 1, 1});
  }
  /// A score for each query and key.
  CudnnTensor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph_.intermediate(type, {b_, h_, t_, t_}, {h_ * t_ * t_, t_ * t_, t_, 1});
  }
  CudnnTensor scores_in_storage() { return scores(type_); }
  CudnnTensor scores_transposed() {
    return graph_.intermediate(type_, {b_, h_, t_, t_}, {h_ * t_ * t_, t_ * t_, 1, t_});
  }
  /// d_out x out before it is summed over the head.
  CudnnTensor products() {
    return graph_.intermediate(CUDNN_DATA_FLOAT, {b_, h_, t_, d_}, {h_ * t_ * d_, t_ * d_, d_, 1});
  }
  /// Gradients of keys or values for each query head, before they are summed over the group.
  CudnnTensor for_each_head() { return graph_.intermediate(type_, {b_, h_, t_, d_}, {h_ * t_ * d_, t_ * d_, d_, 1}); }

 private:
  CudnnTensor rows(std::int64_t heads, std::size_t stride) {
    return graph_.tensor(type_, {b_, heads, t_, d_}, {t_ * number(stride), d_, number(stride), 1});
  }

  CudnnGraph& graph_;
  cudnnDataType_t type_;
  std::int64_t b_, t_, h_, kv_, d_;
};

/// Scores with minus infinity where the key is later than the query.
CudnnTensor masked(CudnnGraph& graph, Tensors& tensors, CudnnTensor scores, CudnnTensor minus_infinity) {
  const CudnnTensor row = tensors.scores(CUDNN_DATA_INT32);
  const CudnnTensor column = tensors.scores(CUDNN_DATA_INT32);
  const CudnnTensor is_seen = tensors.scores(CUDNN_DATA_BOOLEAN);
  const CudnnTensor result = tensors.scores();
  graph.pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .y = row, .axis = 2});
  graph.pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .y = column, .axis = 3});
  graph.pointwise({.mode = CUDNN_POINTWISE_CMP_GE, .x = row, .y = is_seen, .b = column, .compute = CUDNN_DATA_BOOLEAN});
  graph.pointwise({.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = scores, .y = result, .b = minus_infinity, .t = is_seen});
  return result;
}

/// y = x (mode) b, an intermediate of scores.
CudnnTensor combined(CudnnGraph& graph, Tensors& tensors, cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor b) {
  const CudnnTensor y = tensors.scores();
  graph.pointwise({.mode = mode, .x = x, .y = y, .b = b});
  return y;
}

struct Forward {
  CudnnTensor q, k, v, out, lse, scale, minus_infinity;
  std::optional<CudnnPlan> plan;
};

/// out = softmax(scale q k^T, masked) v.
Forward build_forward(const CudnnLibrary& library, const Key& key, std::size_t workspace_bytes) {
  CudnnGraph graph(library);
  Tensors tensors(graph, key, key.sequences);
  Forward f{.q = tensors.wide(key.strides[0]),
            .k = tensors.narrow_transposed(key.strides[1]),
            .v = tensors.narrow(key.strides[2]),
            .out = tensors.wide(key.strides[3]),
            .lse = tensors.statistics(),
            .scale = graph.scalar(),
            .minus_infinity = graph.scalar(),
            .plan = std::nullopt};
  const CudnnTensor raw = tensors.scores();
  graph.matmul(f.q, f.k, raw);
  const CudnnTensor scaled = combined(graph, tensors, CUDNN_POINTWISE_MUL, raw, f.scale);
  const CudnnTensor seen = masked(graph, tensors, scaled, f.minus_infinity);
  const CudnnTensor largest = tensors.statistics_between();
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, largest);
  const CudnnTensor shifted = combined(graph, tensors, CUDNN_POINTWISE_SUB, seen, largest);
  const CudnnTensor exponentials = tensors.scores();
  graph.pointwise({.mode = CUDNN_POINTWISE_EXP, .x = shifted, .y = exponentials});
  const CudnnTensor sum = tensors.statistics_between();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  const CudnnTensor log_of_sum = tensors.statistics_between();
  graph.pointwise({.mode = CUDNN_POINTWISE_LOG, .x = sum, .y = log_of_sum});
  graph.pointwise({.mode = CUDNN_POINTWISE_ADD, .x = largest, .y = f.lse, .b = log_of_sum});
  const CudnnTensor probabilities = tensors.scores_in_storage();
  graph.pointwise({.mode = CUDNN_POINTWISE_DIV, .x = exponentials, .y = probabilities, .b = sum});
  graph.matmul(probabilities, f.v, f.out);
  f.plan = graph.plan(workspace_bytes);
  return f;
}

struct Backward {
  CudnnTensor q, k, v, out, d_out, lse, delta, d_q, d_k, d_v, one, scale, minus_infinity;
  std::size_t sequences;
  std::optional<CudnnPlan> plan;
};

/// y [keys] = x^T [keys, queries] rows, summed over the heads of a group.
void add_key_gradient(CudnnGraph& graph, Tensors& tensors, const Key& key, CudnnTensor x, CudnnTensor rows,
                      CudnnTensor y) {
  const CudnnTensor transposed = tensors.scores_transposed();
  graph.reshape(x, transposed);
  if (key.heads == key.kv_heads) return graph.matmul(transposed, rows, y);
  const CudnnTensor each = tensors.for_each_head();
  graph.matmul(transposed, rows, each);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, each, y);
}

/// For `sequences` of the shape at once. p = exp(scale q k^T - lse), masked; d_v = p^T d_out; d_score = scale p (d_out
/// v^T - delta); d_k = d_score^T q; d_q = d_score k.
Backward build_backward(const CudnnLibrary& library, const Key& key, std::size_t sequences,
                        std::size_t workspace_bytes) {
  CudnnGraph graph(library);
  Tensors tensors(graph, key, sequences);
  Backward b{.q = tensors.wide(key.strides[0]),
             .k = tensors.narrow_transposed(key.strides[1]),
             .v = tensors.narrow_transposed(key.strides[2]),
             .out = tensors.wide(key.strides[3]),
             .d_out = tensors.wide(key.strides[4]),
             .lse = tensors.statistics(),
             .delta = tensors.statistics(),
             .d_q = tensors.wide(key.strides[5]),
             .d_k = tensors.narrow(key.strides[6]),
             .d_v = tensors.narrow(key.strides[7]),
             .one = graph.scalar(),
             .scale = graph.scalar(),
             .minus_infinity = graph.scalar(),
             .sequences = sequences,
             .plan = std::nullopt};
  const CudnnTensor products = tensors.products();
  const CudnnTensor unscaled_delta = tensors.statistics_between();
  graph.pointwise({.mode = CUDNN_POINTWISE_MUL, .x = b.d_out, .y = products, .b = b.out});
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, unscaled_delta);
  graph.pointwise({.mode = CUDNN_POINTWISE_MUL, .x = unscaled_delta, .y = b.delta, .b = b.one});

  const CudnnTensor raw = tensors.scores();
  graph.matmul(b.q, b.k, raw);
  const CudnnTensor scaled = combined(graph, tensors, CUDNN_POINTWISE_MUL, raw, b.scale);
  const CudnnTensor shifted = combined(graph, tensors, CUDNN_POINTWISE_SUB, scaled, b.lse);
  const CudnnTensor seen = masked(graph, tensors, shifted, b.minus_infinity);
  const CudnnTensor p = tensors.scores();
  graph.pointwise({.mode = CUDNN_POINTWISE_EXP, .x = seen, .y = p});
  add_key_gradient(graph, tensors, key, p, b.d_out, b.d_v);

  const CudnnTensor d_p = tensors.scores();
  graph.matmul(b.d_out, b.v, d_p);
  const CudnnTensor centred = combined(graph, tensors, CUDNN_POINTWISE_SUB, d_p, b.delta);
  const CudnnTensor weighted = combined(graph, tensors, CUDNN_POINTWISE_MUL, centred, p);
  const CudnnTensor d_score = combined(graph, tensors, CUDNN_POINTWISE_MUL, weighted, b.scale);
  add_key_gradient(graph, tensors, key, d_score, b.q, b.d_k);

  const CudnnTensor keys = tensors.narrow_view(key.strides[1]);
  graph.reshape(b.k, keys);
  graph.matmul(d_score, keys, b.d_q);
  b.plan = graph.plan(workspace_bytes);
  return b;
}

constexpr std::size_t kAlignment = 256;

/// Bytes of delta for a number of sequences, at the start of the workspace.
std::size_t delta_bytes(const Key& key, std::size_t sequences) {
  return (sequences * key.heads * key.length * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes of d_score that the deterministic pass keeps; cuDNN pads the extents to 64 and 128.
std::size_t score_bytes(const Key& key, std::size_t sequences) {
  return sequences * key.heads * ((key.length + 63) / 64 * 64) * ((key.length + 127) / 128 * 128) * 2;
}

bool suits(const AttentionShape& shape, std::initializer_list<const void*> pointers,
           std::initializer_list<std::size_t> strides) {
  if (shape.dtype == DType::kFp32 || shape.window != 0) return false;
  if (shape.head_size % 8 != 0 || shape.head_size > 128) return false;
  std::size_t bits = 0;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::size_t>(pointer);
  for (const std::size_t stride : strides) bits |= stride * size_of(shape.dtype);
  return bits % 16 == 0;
}

template <class T>
T* offset(T* data, DType type, std::size_t elements) {
  return static_cast<T*>(static_cast<std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>*>(data) +
                         elements * size_of(type));
}

void* writable(const void* data) {
  return const_cast<void*>(data);  // cuDNN's packs hold inputs and outputs alike
}

}  // namespace

struct CudnnAttention::State {
  std::unique_ptr<CudnnLibrary> library;
  // By the workspace offered, too.
  std::map<std::pair<Key, std::size_t>, Forward> forward;
  std::map<std::pair<Key, std::size_t>, Backward> backward;
  std::string refusal;

  /// The plan of as many sequences at once as fit, of those numbers that divide all.
  Backward build(const Key& key, std::size_t workspace_bytes) {
    for (std::size_t sequences = key.sequences; sequences > 0; --sequences) {
      if (key.sequences % sequences != 0) continue;
      const std::size_t own = delta_bytes(key, sequences);
      if (own + score_bytes(key, sequences) > workspace_bytes) continue;
      Backward built = build_backward(*library, key, sequences, workspace_bytes - own);
      if (built.plan) return built;
    }
    refusal = "no deterministic plan fits the workspace";
    return {};
  }
};

CudnnAttention::CudnnAttention(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudnnAttention::~CudnnAttention() = default;

std::unique_ptr<CudnnAttention> CudnnAttention::open(std::string& note) {
  auto state = std::make_unique<State>();
  state->library = CudnnLibrary::open(note);
  if (state->library == nullptr) return nullptr;
  return std::unique_ptr<CudnnAttention>(new CudnnAttention(std::move(state)));
}

const std::string& CudnnAttention::refusal() const {
  return state_->refusal;
}

bool CudnnAttention::prepare(const AttentionForward& args, std::size_t workspace_bytes) {
  if (!suits(args.shape, {args.q, args.k, args.v, args.out},
             {args.q_stride, args.k_stride, args.v_stride, args.out_stride})) {
    return false;
  }
  const std::pair key(key_of(args), workspace_bytes);
  const auto known = state_->forward.find(key);
  if (known != state_->forward.end()) return known->second.plan.has_value();
  Forward built{};
  try {
    built = build_forward(*state_->library, key.first, workspace_bytes);
    if (!built.plan) state_->refusal = "no engine takes the forward graph";
  } catch (const Error& error) {
    state_->refusal = error.message();
  }
  return state_->forward.emplace(key, std::move(built)).first->second.plan.has_value();
}

bool CudnnAttention::prepare(const AttentionBackward& args, std::size_t workspace_bytes) {
  if (!suits(args.shape, {args.q, args.k, args.v, args.out, args.d_out, args.d_q, args.d_k, args.d_v},
             {args.q_stride, args.k_stride, args.v_stride, args.out_stride, args.d_out_stride, args.d_q_stride,
              args.d_k_stride, args.d_v_stride})) {
    return false;
  }
  const std::pair key(key_of(args), workspace_bytes);
  const auto known = state_->backward.find(key);
  if (known != state_->backward.end()) return known->second.plan.has_value();
  Backward built{};
  try {
    built = state_->build(key.first, workspace_bytes);
  } catch (const Error& error) {
    state_->refusal = error.message();
  }
  return state_->backward.emplace(key, std::move(built)).first->second.plan.has_value();
}

void CudnnAttention::enqueue(const AttentionForward& args, const Launch& launch) {
  const Forward& f = state_->forward.at({key_of(args), launch.workspace_bytes});
  float scale = args.shape.scale;
  float minus_infinity = -std::numeric_limits<float>::infinity();
  const std::array bindings{CudnnBinding{f.q, writable(args.q)},
                            CudnnBinding{f.k, writable(args.k)},
                            CudnnBinding{f.v, writable(args.v)},
                            CudnnBinding{f.out, args.out},
                            CudnnBinding{f.lse, args.lse},
                            CudnnBinding{f.scale, &scale},
                            CudnnBinding{f.minus_infinity, &minus_infinity}};
  f.plan->run(bindings, launch.workspace, launch.stream);
}

void CudnnAttention::enqueue(const AttentionBackward& args, const Launch& launch) {
  const Key key = key_of(args);
  const Backward& b = state_->backward.at({key, launch.workspace_bytes});
  float one = 1;
  float scale = args.shape.scale;
  float minus_infinity = -std::numeric_limits<float>::infinity();
  void* rest = static_cast<std::byte*>(launch.workspace) + delta_bytes(key, b.sequences);
  const DType type = key.dtype;
  for (std::size_t first = 0; first < key.sequences; first += b.sequences) {
    const std::size_t row = first * key.length;
    const std::array bindings{CudnnBinding{b.q, writable(offset(args.q, type, row * args.q_stride))},
                              CudnnBinding{b.k, writable(offset(args.k, type, row * args.k_stride))},
                              CudnnBinding{b.v, writable(offset(args.v, type, row * args.v_stride))},
                              CudnnBinding{b.out, writable(offset(args.out, type, row * args.out_stride))},
                              CudnnBinding{b.d_out, writable(offset(args.d_out, type, row * args.d_out_stride))},
                              CudnnBinding{b.lse, writable(args.lse + row * key.heads)},
                              CudnnBinding{b.delta, launch.workspace},
                              CudnnBinding{b.d_q, offset(args.d_q, type, row * args.d_q_stride)},
                              CudnnBinding{b.d_k, offset(args.d_k, type, row * args.d_k_stride)},
                              CudnnBinding{b.d_v, offset(args.d_v, type, row * args.d_v_stride)},
                              CudnnBinding{b.one, &one},
                              CudnnBinding{b.scale, &scale},
                              CudnnBinding{b.minus_infinity, &minus_infinity}};
    b.plan->run(bindings, rest, launch.stream);
  }
}

}  // namespace zeroplan::kernels::cuda
