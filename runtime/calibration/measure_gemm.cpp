#include <array>

#include <fmt/format.h>

#include "kernels/gemm.h"
#include "runtime/calibration/measure_kernels.h"

namespace zeroplan::runtime {
namespace {

constexpr std::array<std::uint64_t, 4> kRows = {64, 256, 1024, 4096};
constexpr std::array<std::uint64_t, 3> kColumns = {64, 256, 1024};
constexpr std::array<std::uint64_t, 4> kInner = {64, 256, 1024, 4096};

/// How the operands are stored.
struct Form {
  bool transpose_a = false;
  bool transpose_b = false;
};
/// y = x W^T, d_x = d_y W, d_W = d_y^T x.
constexpr std::array<Form, 3> kForms = {{{false, true}, {false, false}, {true, false}}};

RankBody body_of(DType dtype, std::uint64_t m, std::uint64_t n, std::uint64_t k, const Form& form) {
  auto a = std::make_shared<TensorBuffer>(m * k, dtype);
  auto b = std::make_shared<TensorBuffer>(k * n, dtype);
  auto c = std::make_shared<TensorBuffer>(m * n, dtype);
  auto workspace = std::make_shared<FloatBuffer>(gemm_workspace_bytes(m, n, k, dtype).count() / sizeof(float));
  kernels::Gemm args;
  args.dtype = dtype;
  args.c_dtype = dtype;
  args.m = m;
  args.n = n;
  args.k = k;
  args.transpose_a = form.transpose_a;
  args.transpose_b = form.transpose_b;
  args.a = a->data();
  args.b = b->data();
  args.c = c->data();
  args.workspace = workspace->data();
  return [args, a, b, c, workspace](kernels::Workers& workers) { kernels::cpu::gemm(args, workers); };
}

}  // namespace

std::vector<planner::GemmPoint> measure_gemm(const RankTeam& team, DType dtype, Flops most_flops,
                                             const Progress& progress) {
  std::vector<planner::GemmPoint> points;
  for (const std::uint64_t m : kRows) {
    for (const std::uint64_t n : kColumns) {
      for (const std::uint64_t k : kInner) {
        const Flops flops(2 * m * n * k);
        if (flops > most_flops) continue;
        if (progress) progress(fmt::format("gemm {} {}x{}x{}, {} rank(s)", to_string(dtype), m, n, k, team.ranks()));
        Seconds sum;
        for (const Form& form : kForms) sum += team.time([&](std::size_t) { return body_of(dtype, m, n, k, form); });
        const double mean = sum.value() / static_cast<double>(kForms.size());
        points.push_back({dtype, m, n, k, team.ranks(), FlopsPerSecond(static_cast<double>(flops.count()) / mean)});
      }
    }
  }
  return points;
}

}  // namespace zeroplan::runtime
