// The matrix product of the CPU back end beside oneDNN and Eigen, one thread each, on the shapes of one training step:
// y = x W^T (forward), d_x = d_y W and d_W = d_y^T x. Run alternately and compare medians:
//   kernels_gemm_bench --benchmark_repetitions=5 --benchmark_enable_random_interleaving
//   --benchmark_report_aggregates_only
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include <Eigen/Dense>
#include <benchmark/benchmark.h>
#include <dnnl.h>

#include "kernels/gemm.h"

namespace {

using zeroplan::kernels::Gemm;
using zeroplan::kernels::Workers;

struct Operands {
  explicit Operands(const benchmark::State& state)
      : m(static_cast<std::size_t>(state.range(0))),
        n(static_cast<std::size_t>(state.range(1))),
        k(static_cast<std::size_t>(state.range(2))),
        transpose_a(state.range(3) != 0),
        transpose_b(state.range(4) != 0),
        a(m * k, 0.5f),
        b(k * n, 0.25f),
        c(m * n) {}

  std::size_t a_stride() const { return transpose_a ? m : k; }
  std::size_t b_stride() const { return transpose_b ? k : n; }
  void count(benchmark::State& state) const {
    state.counters["flops"] = benchmark::Counter(
        2.0 * static_cast<double>(m * n * k) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  }

  std::size_t m, n, k;
  bool transpose_a, transpose_b;
  std::vector<float> a, b, c;
};

void own(benchmark::State& state, int threads) {
  Operands x(state);
  Workers workers(threads);
  const std::size_t bytes = zeroplan::gemm_workspace_bytes(x.m, x.n, x.k, zeroplan::DType::kFp32).count();
  const std::unique_ptr<void, void (*)(void*)> workspace(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
  for (auto _ : state) {
    zeroplan::kernels::cpu::gemm({.m = x.m,
                                  .n = x.n,
                                  .k = x.k,
                                  .transpose_a = x.transpose_a,
                                  .transpose_b = x.transpose_b,
                                  .a = x.a.data(),
                                  .a_stride = x.a_stride(),
                                  .b = x.b.data(),
                                  .b_stride = x.b_stride(),
                                  .c = x.c.data(),
                                  .c_stride = x.n,
                                  .workspace = workspace.get()},
                                 workers);
    benchmark::ClobberMemory();
  }
  x.count(state);
}

/// As many threads as OMP_NUM_THREADS says.
void onednn(benchmark::State& state) {
  Operands x(state);
  const auto extent = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  for (auto _ : state) {
    dnnl_sgemm(x.transpose_a ? 'T' : 'N', x.transpose_b ? 'T' : 'N', extent(x.m), extent(x.n), extent(x.k), 1,
               x.a.data(), extent(x.a_stride()), x.b.data(), extent(x.b_stride()), 0, x.c.data(), extent(x.n));
    benchmark::ClobberMemory();
  }
  x.count(state);
}

/// One thread, with the instruction set this file is compiled for.
void eigen(benchmark::State& state) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Operands x(state);
  const auto map = [](std::vector<float>& data, std::size_t stride) {
    return Eigen::Map<Matrix>(data.data(), static_cast<Eigen::Index>(data.size() / stride),
                              static_cast<Eigen::Index>(stride));
  };
  const auto a = map(x.a, x.a_stride());
  const auto b = map(x.b, x.b_stride());
  auto c = map(x.c, x.n);
  for (auto _ : state) {
    if (x.transpose_a) {
      c.noalias() = a.transpose() * b;
    } else if (x.transpose_b) {
      c.noalias() = a * b.transpose();
    } else {
      c.noalias() = a * b;
    }
    benchmark::ClobberMemory();
  }
  x.count(state);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "ta", "tb"})->UseRealTime();
  bench->Args({2048, 384, 384, 0, 1})->Args({2048, 1024, 384, 0, 1})->Args({2048, 384, 1024, 0, 1});
  bench->Args({2048, 384, 1024, 0, 0})->Args({2048, 1024, 384, 0, 0});
  bench->Args({384, 1024, 2048, 1, 0})->Args({1024, 384, 2048, 1, 0})->Args({256, 128, 384, 0, 1});
}

BENCHMARK_CAPTURE(own, threads_1, 1)->Apply(shapes);
BENCHMARK_CAPTURE(own, threads_2, 2)->Apply(shapes);
BENCHMARK(onednn)->Apply(shapes);
BENCHMARK(eigen)->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();
