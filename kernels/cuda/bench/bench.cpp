// What the CUDA operators achieve: GB/s of the bytes that must move, or TFLOPS, over a list of shapes that training
// uses. Usage: cuda_kernels_bench [part of a name]. Each figure is the median of 5 rounds of as many calls as fill 20
// ms; operands are random. A line: operator, shape, type, microseconds, rate.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/operators.h"
#include "models/core/error.h"

namespace {

using namespace zeroplan;           // NOLINT(google-build-using-namespace)
using namespace zeroplan::kernels;  // NOLINT(google-build-using-namespace)
using cuda::check_device;
using cuda::enqueue;

/// Device memory, handed out from one block that starts again for each case.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    check_device(cudaMalloc(&data_, bytes), "cudaMalloc");
    std::vector<std::uint16_t> block(1 << 20);
    // bf16 values of either sign within (-2, 2): plausible, and as fp32 they are too.
    std::uint32_t state = 1;
    for (std::uint16_t& value : block) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<std::uint16_t>((state >> 31 << 15) | (0x3c00u + (state >> 16) % 0x3ffu));
    }
    for (std::size_t at = 0; at < bytes; at += block.size() * 2) {
      const std::size_t part = std::min(bytes - at, block.size() * 2);
      check_device(cudaMemcpy(static_cast<char*>(data_) + at, block.data(), part, cudaMemcpyHostToDevice), "fill");
    }
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void restart() { used_ = 0; }
  void* take(std::size_t bytes) {
    void* at = static_cast<char*>(data_) + used_;
    used_ += (bytes + 255) / 256 * 256;
    if (used_ > bytes_) throw Error(ErrorCode::kDoesNotFit, "the benchmark's memory is too small");
    return at;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

constexpr std::size_t kWorkspaceBytes = std::size_t{1} << 30;

class Bench {
 public:
  explicit Bench(const char* filter) : filter_(filter), memory_(std::size_t{12} << 30), workspace_(kWorkspaceBytes) {
    check_device(cudaStreamCreate(&stream_), "stream");
    std::printf("cuDNN: %s\n", context_.cudnn_note().c_str());
  }
  ~Bench() { cudaStreamDestroy(stream_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  cuda::Launch launch() { return {stream_, &context_, workspace_.take(0), kWorkspaceBytes}; }
  void* take(std::size_t elements, DType type) { return memory_.take(elements * size_of(type)); }
  cuda::Context& context() { return context_; }
  Memory& memory() { return memory_; }
  cudaStream_t stream() { return stream_; }

  /// `amount`: bytes or FLOPs of a call.
  void run(const std::string& name, DType type, double amount, const char* unit, const std::function<void()>& call) {
    const std::string line = name + " " + std::string(to_string(type));
    if (line.find(filter_) == std::string::npos) return;
    try {
      const double seconds = median(call);
      std::printf("%-58s %10.1f us %9.1f %s\n", line.c_str(), seconds * 1e6,
                  amount / seconds * 1e-9 * (std::strcmp(unit, "TFLOPS") == 0 ? 1e-3 : 1), unit);
    } catch (const Error& error) {
      std::printf("%-58s failed: %s\n", line.c_str(), error.message().c_str());
    }
    std::fflush(stdout);
  }

 private:
  double time(const std::function<void()>& call, int calls) {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    check_device(cudaEventCreate(&begin), "event");
    check_device(cudaEventCreate(&end), "event");
    check_device(cudaEventRecord(begin, stream_), "record");
    for (int i = 0; i < calls; ++i) call();
    check_device(cudaEventRecord(end, stream_), "record");
    check_device(cudaEventSynchronize(end), "kernels");
    float milliseconds = 0;
    check_device(cudaEventElapsedTime(&milliseconds, begin, end), "time");
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return milliseconds * 1e-3 / calls;
  }
  double median(const std::function<void()>& call) {
    call();
    const double once = time(call, 2);
    const int calls = std::clamp(static_cast<int>(0.02 / once), 1, 500);
    std::vector<double> times;
    for (int round = 0; round < 5; ++round) times.push_back(time(call, calls));
    std::sort(times.begin(), times.end());
    return times[2];
  }

  std::string filter_;
  Memory memory_;
  Memory workspace_;
  cuda::Context context_{cuda::ContextOptions{}};
  cudaStream_t stream_ = nullptr;
};

constexpr std::size_t kTokens = 32 * 1024;

std::string shape(std::initializer_list<std::size_t> extents) {
  std::string text;
  for (const std::size_t extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

float* floats(Bench& bench, std::size_t n) {
  return static_cast<float*>(bench.take(n, DType::kFp32));
}

void norms(Bench& bench, DType type, std::size_t width, bool layer) {
  bench.memory().restart();
  const std::size_t n = kTokens * width;
  void* x = bench.take(n, type);
  void* y = bench.take(n, type);
  void* d_x = bench.take(n, type);
  void* weight = bench.take(width, type);
  void* d_weight = bench.take(width, type);
  void* d_bias = bench.take(width, type);
  float* mean = floats(bench, kTokens);
  float* rstd = floats(bench, kTokens);
  const double bytes = static_cast<double>(n * size_of(type));
  const std::string at = shape({kTokens, width});
  if (layer) {
    bench.run("layer norm forward " + at, type, 2 * bytes, "GB/s", [&] {
      enqueue(LayerNormForward{type, kTokens, width, 1e-5, x, weight, weight, y, mean, rstd}, bench.launch());
    });
    bench.run("layer norm backward, adding " + at, type, 4 * bytes, "GB/s", [&] {
      enqueue(
          LayerNormBackward{type, type, kTokens, width, y, x, weight, mean, rstd, d_x, d_weight, d_bias, true, false},
          bench.launch());
    });
  } else {
    bench.run("rms norm forward " + at, type, 2 * bytes, "GB/s", [&] {
      enqueue(RmsNormForward{type, kTokens, width, 1e-6, x, weight, y, rstd}, bench.launch());
    });
    bench.run("rms norm backward, adding " + at, type, 4 * bytes, "GB/s", [&] {
      enqueue(RmsNormBackward{type, type, kTokens, width, y, x, weight, rstd, d_x, d_weight, true, false},
              bench.launch());
    });
  }
}

void activations(Bench& bench, DType type) {
  bench.memory().restart();
  const std::size_t n = kTokens * 3072;
  void* a = bench.take(n, type);
  void* b = bench.take(n, type);
  void* c = bench.take(n, type);
  void* d = bench.take(n, type);
  void* e = bench.take(n, type);
  const double bytes = static_cast<double>(n * size_of(type));
  const std::string at = shape({kTokens, 3072});
  bench.run("add " + at, type, 3 * bytes, "GB/s", [&] { enqueue(Add{type, n, a, b, c}, bench.launch()); });
  bench.run("gelu forward " + at, type, 2 * bytes, "GB/s", [&] {
    enqueue(GeluForward{type, n, a, b}, bench.launch());
  });
  bench.run("gelu backward " + at, type, 3 * bytes, "GB/s", [&] {
    enqueue(GeluBackward{type, n, a, b, c}, bench.launch());
  });
  bench.run("gated silu forward " + at, type, 3 * bytes, "GB/s", [&] {
    enqueue(GatedSiluForward{type, n, a, b, c}, bench.launch());
  });
  bench.run("gated silu backward " + at, type, 5 * bytes, "GB/s", [&] {
    enqueue(GatedSiluBackward{type, n, a, b, c, d, e}, bench.launch());
  });
}

void rotary(Bench& bench, DType type) {
  bench.memory().restart();
  constexpr std::size_t kHeads = 14, kSize = 64, kStride = 18 * 64;
  void* x = bench.take(kTokens * kStride, type);
  float* table = floats(bench, 1024 * kSize);
  bench.run("rotary 32768x14x64 of rows of 1152", type, 2.0 * kTokens * kHeads * kSize * size_of(type), "GB/s", [&] {
    enqueue(Rotary{type, kTokens, kHeads, kSize, 1024, table, x, kStride, false}, bench.launch());
  });
}

void embeddings(Bench& bench, DType type, std::size_t vocabulary, std::size_t width) {
  bench.memory().restart();
  std::vector<std::int32_t> ids(kTokens);
  std::uint32_t state = 3;
  for (std::int32_t& id : ids) {
    // Roughly Zipf's law: the inverse of a uniform number.
    state = state * 1664525u + 1013904223u;
    const double u = (state + 1.0) / 4294967297.0;
    id = static_cast<std::int32_t>(std::min(1 / u, static_cast<double>(vocabulary)) - 1);
  }
  auto* device_ids = static_cast<std::int32_t*>(bench.take(kTokens, DType::kInt32));
  check_device(cudaMemcpy(device_ids, ids.data(), kTokens * 4, cudaMemcpyHostToDevice), "ids");
  void* table = bench.take(vocabulary * width, DType::kFp32);
  void* positions = bench.take(1024 * width, type);
  void* out = bench.take(kTokens * width, type);
  const double bytes = static_cast<double>(kTokens * width * size_of(type));
  bench.run("embedding forward " + shape({kTokens, width}), type, 2 * bytes, "GB/s", [&] {
    enqueue(EmbeddingForward{type, kTokens, width, 1024, device_ids, table, positions, out}, bench.launch());
  });
  for (const bool accumulate : {false, true}) {
    const double all = accumulate ? 3 * bytes : 2 * bytes + static_cast<double>(vocabulary * width * size_of(type));
    bench.run(
        std::string("embedding backward") + (accumulate ? ", adding " : " ") + shape({kTokens, vocabulary, width}),
        type, all, "GB/s", [&] {
          enqueue(EmbeddingBackward{type, type, kTokens, width, 1024, vocabulary, 1024, device_ids, out, table,
                                    positions, accumulate, accumulate, nullptr},
                  bench.launch());
        });
  }
}

void losses(Bench& bench, DType type, std::size_t rows, std::size_t vocabulary) {
  bench.memory().restart();
  auto* labels = static_cast<std::int32_t*>(bench.take(rows, DType::kInt32));
  check_device(cudaMemset(labels, 0, rows * 4), "labels");
  auto* scalars = static_cast<StepScalars*>(bench.take(sizeof(StepScalars), DType::kInt8));
  const StepScalars values{};
  check_device(cudaMemcpy(scalars, &values, sizeof(values), cudaMemcpyHostToDevice), "scalars");
  void* logits = bench.take(rows * vocabulary, type);
  float* out = floats(bench, rows);
  bench.run("cross entropy " + shape({rows, vocabulary}), type, 2.0 * rows * vocabulary * size_of(type), "GB/s", [&] {
    enqueue(CrossEntropy{type, rows, vocabulary, labels, logits, 0, out, scalars, true}, bench.launch());
  });
}

void updates(Bench& bench, DType type, std::size_t n) {
  bench.memory().restart();
  auto* scalars = static_cast<StepScalars*>(bench.take(sizeof(StepScalars), DType::kInt8));
  const StepScalars values{};
  check_device(cudaMemcpy(scalars, &values, sizeof(values), cudaMemcpyHostToDevice), "scalars");
  float* parameter = floats(bench, n);
  float* first = floats(bench, n);
  float* second = floats(bench, n);
  void* gradient = bench.take(n, type);
  void* copy = bench.take(n, DType::kBf16);
  auto* sum = static_cast<double*>(bench.take(1, DType::kFp64));
  const double each = 24.0 + static_cast<double>(size_of(type)) + 2;
  bench.run("adamw with a bf16 copy, gradients of " + shape({n}), type, each * static_cast<double>(n), "GB/s", [&] {
    enqueue(AdamW{type, n, true, parameter, gradient, first, second, DType::kBf16, copy, scalars}, bench.launch());
  });
  bench.run("sum of squares " + shape({n}), type, static_cast<double>(n * size_of(type)), "GB/s", [&] {
    cuda::enqueue_sum_of_squares(SumOfSquares{type, n, gradient}, sum, false, bench.launch());
  });
}

void linears(Bench& bench, DType type, std::size_t in, std::size_t out, WeightLayout layout, bool bias) {
  bench.memory().restart();
  void* x = bench.take(kTokens * in, type);
  void* y = bench.take(kTokens * out, type);
  void* weight = bench.take(in * out, type);
  void* b = bench.take(out, type);
  void* d_weight = bench.take(in * out, type);
  const double flops = 2.0 * kTokens * static_cast<double>(in * out);
  const std::string at = shape({kTokens, in, out}) + (layout == WeightLayout::kInOut ? " in-out" : " out-in");
  bench.run("linear forward " + at, type, flops, "TFLOPS", [&] {
    enqueue(LinearForward{type, layout, kTokens, in, out, x, 0, weight, bias ? b : nullptr, y, 0, false, nullptr},
            bench.launch());
  });
  bench.run("linear backward input " + at, type, flops, "TFLOPS", [&] {
    enqueue(LinearBackwardInput{type, layout, kTokens, in, out, y, 0, weight, x, 0, false, nullptr}, bench.launch());
  });
  bench.run("linear backward weight " + at, type, flops, "TFLOPS", [&] {
    enqueue(LinearBackwardWeight{type, type, layout, kTokens, in, out, y, 0, x, 0, d_weight, nullptr, false, false,
                                 nullptr},
            bench.launch());
  });
  if (bias) {
    bench.run("linear backward weight and bias " + at, type, flops, "TFLOPS", [&] {
      enqueue(
          LinearBackwardWeight{type, type, layout, kTokens, in, out, y, 0, x, 0, d_weight, b, false, false, nullptr},
          bench.launch());
    });
  }
}

/// cuDNN's attention for other workspaces than the planned ones: what more memory would bring.
void attention_by_workspace(Bench& bench, const AttentionForward& forward, const AttentionBackward& backward,
                            double square, const std::string& at) {
  cuda::CudnnAttention* const cudnn = bench.context().cudnn();
  if (cudnn == nullptr) return;
  for (const std::size_t mebibytes : {0, 16, 64, 128, 256, 512, 1024}) {
    cuda::Launch launch = bench.launch();
    launch.workspace_bytes = mebibytes << 20;
    const std::string with = " in " + std::to_string(mebibytes) + " MiB ";
    if (cudnn->prepare(forward, launch.workspace_bytes)) {
      bench.run("attention forward" + with + at, forward.shape.dtype, 2 * square, "TFLOPS",
                [&] { cudnn->enqueue(forward, launch); });
    }
    if (cudnn->prepare(backward, launch.workspace_bytes)) {
      bench.run("attention backward" + with + at, forward.shape.dtype, 5 * square, "TFLOPS",
                [&] { cudnn->enqueue(backward, launch); });
    }
  }
}

/// FLOPs of causal attention: half of the square; 2 products forward, 5 backward.
void attention(Bench& bench, DType type, std::size_t sequences, std::size_t heads, std::size_t kv_heads,
               std::size_t length, std::size_t size) {
  bench.memory().restart();
  const std::size_t rows = sequences * length;
  const std::size_t width = (heads + 2 * kv_heads) * size;
  auto* qkv = static_cast<char*>(bench.take(rows * width, type));
  auto* d_qkv = static_cast<char*>(bench.take(rows * width, type));
  void* out = bench.take(rows * heads * size, type);
  void* d_out = bench.take(rows * heads * size, type);
  float* lse = floats(bench, rows * heads);
  const std::size_t k_at = heads * size * size_of(type);
  const std::size_t v_at = k_at + kv_heads * size * size_of(type);
  AttentionShape s{type, sequences, length, heads, kv_heads, size, 0.125f, 0};
  const std::size_t wide = heads * size;
  const AttentionForward forward{s, qkv, width, qkv + k_at, width, qkv + v_at, width, out, wide, lse};
  const AttentionBackward backward{s,      d_out, wide, qkv,   width, qkv + k_at,   width, qkv + v_at,   width,
                                   out,    wide,  lse,  d_qkv, width, d_qkv + k_at, width, d_qkv + v_at, width,
                                   nullptr};
  const double square =
      static_cast<double>(sequences * heads) * static_cast<double>(length * length) * static_cast<double>(size);
  const std::string at = shape({sequences, heads, kv_heads, length, size});
  bench.run("attention forward (" + cuda::implementation(forward, bench.context()) + ") " + at, type, 2 * square,
            "TFLOPS", [&] { enqueue(forward, bench.launch()); });
  bench.run("attention backward (" + cuda::implementation(backward, bench.context()) + ") " + at, type, 5 * square,
            "TFLOPS", [&] { enqueue(backward, bench.launch()); });
  attention_by_workspace(bench, forward, backward, square, at);
}

void all(Bench& bench) {
  const DType half = DType::kBf16;
  const DType full = DType::kFp32;
  for (const DType type : {half, full}) {
    norms(bench, type, 768, true);
    norms(bench, type, 896, false);
    norms(bench, type, 1600, true);
    activations(bench, type);
    rotary(bench, type);
  }
  embeddings(bench, half, 50257, 768);
  embeddings(bench, half, 151936, 896);
  losses(bench, half, 8192, 50257);
  losses(bench, half, 8192, 50304);
  losses(bench, half, 4096, 151936);
  updates(bench, full, 124000000);
  updates(bench, half, 124000000);
  for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}) {
    linears(bench, half, in, out, WeightLayout::kInOut, true);
  }
  linears(bench, half, 768, 50257, WeightLayout::kOutIn, false);
  linears(bench, half, 768, 50304, WeightLayout::kOutIn, false);
  for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{896, 1152}, {896, 896}, {896, 4864}, {4864, 896}}) {
    linears(bench, half, in, out, WeightLayout::kOutIn, in == 896 && out == 1152);
  }
  linears(bench, full, 768, 3072, WeightLayout::kInOut, true);
  for (const DType type : {half, full}) {
    attention(bench, type, 16, 12, 12, 1024, 64);
    attention(bench, type, 8, 32, 32, 2048, 128);
    attention(bench, type, 32, 14, 2, 1024, 64);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Bench bench(argc > 1 ? argv[1] : "");
    all(bench);
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.message().c_str());
    return 1;
  }
  return 0;
}
