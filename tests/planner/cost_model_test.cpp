#include "planner/cost_model.h"

#include <gtest/gtest.h>

#include "planner/rate_table.h"

namespace zeroplan::planner {
namespace {

Machine measured_cpu() {
  Machine m;
  m.name = "test";
  m.cores = 2;
  for (const std::uint64_t ranks : {1u, 2u}) {
    const double rate = 40e9 / static_cast<double>(ranks);
    for (const std::uint64_t extent : {64u, 1024u}) {
      m.rates.gemm.push_back({DType::kFp32, extent, 64, 64, ranks, FlopsPerSecond(extent == 64 ? rate / 4 : rate)});
    }
    m.rates.cpu_ops.push_back({"adamw", DType::kFp32, ranks, 1000, 1, 1, Seconds(1e-6 * static_cast<double>(ranks))});
    m.rates.cpu_ops.push_back(
        {"all_reduce", DType::kFp32, ranks, 1 << 20, 1, 1, Seconds(1e-3 * static_cast<double>(ranks))});
  }
  return m;
}

TrainingSpec ranks_on_one_node(std::uint64_t ranks) {
  TrainingSpec training;
  training.gpus = ranks;
  training.seq = 64;
  training.precision = Precision::kFp32;
  return training;
}

TEST(RateTable, HitsItsPointsAndInterpolatesBetweenThemInTheLogarithm) {
  RateTable table;
  table.add({16, 1, 1}, 4.0);
  table.add({64, 1, 1}, 1.0);
  table.finish();
  EXPECT_NEAR(table.at({16, 1, 1}), 4.0, 1e-12);
  EXPECT_NEAR(table.at({64, 1, 1}), 1.0, 1e-12);
  EXPECT_NEAR(table.at({32, 1, 1}), 2.0, 1e-12);
}

TEST(RateTable, KeepsTheEdgeBeyondItsPoints) {
  RateTable table;
  table.add({16, 1, 1}, 4.0);
  table.add({64, 1, 1}, 1.0);
  table.finish();
  EXPECT_NEAR(table.at({1, 1, 1}), 4.0, 1e-12);
  EXPECT_NEAR(table.at({1 << 20, 7, 7}), 1.0, 1e-12);
}

TEST(RateTable, FillsHolesOfTheGridFromTheCornersThatExist) {
  RateTable table;
  table.add({1, 1, 1}, 8.0);
  table.add({4, 4, 1}, 2.0);
  table.finish();
  EXPECT_NEAR(table.at({4, 1, 1}), 8.0, 1e-12);  // a hole: the nearest point
  EXPECT_NEAR(table.at({2, 2, 1}), 4.0, 1e-12);  // both corners weigh alike
}

TEST(CostModel, UsesTheMatrixProductsMeasuredWithAsManyRanks) {
  const Machine machine = measured_cpu();
  const CostModel one(machine, ranks_on_one_node(1)), two(machine, ranks_on_one_node(2)),
      four(machine, ranks_on_one_node(4));
  const double flops = 2.0 * 1024 * 64 * 64;
  EXPECT_NEAR(one.gemm(DType::kFp32, 1024, 64, 64).value(), flops / 40e9, 1e-12);
  EXPECT_NEAR(two.gemm(DType::kFp32, 1024, 64, 64).value(), flops / 20e9, 1e-12);
  // Not measured: each of four ranks has half of what each of two has.
  EXPECT_NEAR(four.gemm(DType::kFp32, 1024, 64, 64).value(), flops / 10e9, 1e-12);
}

TEST(CostModel, MeasuredOpsHaveAFloorBelowTheirSmallestPoint) {
  const CostModel costs(measured_cpu(), ranks_on_one_node(1));
  EXPECT_NEAR(costs.update(Elements(1000), DType::kFp32).value(), 1e-6, 1e-15);
  EXPECT_NEAR(costs.update(Elements(10), DType::kFp32).value(), 1e-6, 1e-15);
  EXPECT_NEAR(costs.update(Elements(5000), DType::kFp32).value(), 5e-6, 1e-15);
}

TEST(CostModel, UnmeasuredUpdatesMoveTheBytesOfTheirMoments) {
  Machine machine = measured_cpu();
  machine.rates.device_bytes = BytesPerSecond(1e9);
  const auto bytes_of = [&](OptimizerKind optimizer, DType compute) {
    TrainingSpec training = ranks_on_one_node(1);
    training.optimizer = optimizer;
    return CostModel(machine, training).update(Elements(1'000'000), compute).value() * 1e9 / 1e6;
  };
  EXPECT_NEAR(bytes_of(OptimizerKind::kAdam, DType::kFp32), 28, 1e-9);  // reads p, g, m, v, writes p, m, v
  for (const auto one_moment : {OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdagrad}) {
    EXPECT_NEAR(bytes_of(one_moment, DType::kFp32), 20, 1e-9);
    EXPECT_NEAR(bytes_of(one_moment, DType::kBf16), 20, 1e-9);  // 2 less to read, 2 more to write
  }
  EXPECT_NEAR(bytes_of(OptimizerKind::kLamb, DType::kFp32), 16, 1e-9);  // its last pass: reads p, m, v, writes p
}

TEST(CostModel, LoopbackCollectivesComeFromTheirPoints) {
  const CostModel costs(measured_cpu(), ranks_on_one_node(2));
  EXPECT_NEAR(costs.collective(CollectiveKind::kAllReduce, Bytes(4 << 20)).value(), 8e-3, 1e-9);
}

TEST(CostModel, RingFormulasHoldWithoutPoints) {
  Machine machine;
  machine.rates.link_bytes = BytesPerSecond(1e9);
  machine.latencies.collective = Seconds(1e-5);
  const CostModel costs(machine, ranks_on_one_node(4));
  EXPECT_NEAR(costs.collective(CollectiveKind::kAllGather, Bytes(4'000'000)).value(), 1e-5 + 3e-3, 1e-12);
  EXPECT_NEAR(costs.collective(CollectiveKind::kAllReduce, Bytes(4'000'000)).value(), 2e-5 + 6e-3, 1e-12);
}

TEST(CostModel, BetweenNodesTheShareOfEachRankCrossesTheNetwork) {
  Machine machine;
  machine.gpus = 8;
  machine.nodes = 2;
  machine.rates.link_bytes = BytesPerSecond(4e9);
  machine.rates.network_bytes = BytesPerSecond(1e9);
  TrainingSpec training = ranks_on_one_node(8);
  training.nodes = 2;
  const CostModel costs(machine, training);
  // 3/4 of 8 MB at 4 GB/s within the node, then half of a quarter of it at 1 GB/s.
  EXPECT_NEAR(costs.collective(CollectiveKind::kReduceScatter, Bytes(8'000'000)).value(), 1.5e-3 + 1e-3, 1e-12);
}

TEST(CostModel, PresetOfACpuIsSharedByItsRanks) {
  const Machine machine = parse_machine("cpu");
  const CostModel one(machine, ranks_on_one_node(1)), two(machine, ranks_on_one_node(2));
  EXPECT_NEAR(two.gemm(DType::kFp32, 512, 512, 512) / one.gemm(DType::kFp32, 512, 512, 512), 2.0, 1e-9);
}

TEST(CostModel, TypesHaveTheirOwnPointsOrElseThoseOfFp32) {
  Machine machine = measured_cpu();
  const TrainingSpec training = ranks_on_one_node(1);
  const CostModel shared(machine, training);
  EXPECT_EQ(shared.gemm(DType::kBf16, 1024, 64, 64).value(), shared.gemm(DType::kFp32, 1024, 64, 64).value());
  EXPECT_NEAR(shared.op_time("adamw", DType::kBf16, {1000, 1, 1}, Bytes(0)).value(), 1e-6, 1e-18);
  machine.rates.gemm.push_back({DType::kBf16, 1024, 64, 64, 1, FlopsPerSecond(20e9)});
  machine.rates.cpu_ops.push_back({"adamw", DType::kBf16, 1, 1000, 1, 1, Seconds(3e-6)});
  const CostModel own(machine, training);
  EXPECT_NEAR(own.gemm(DType::kBf16, 1024, 64, 64) / own.gemm(DType::kFp32, 1024, 64, 64), 2.0, 1e-9);
  EXPECT_NEAR(own.op_time("adamw", DType::kBf16, {1000, 1, 1}, Bytes(0)).value(), 3e-6, 1e-18);
  EXPECT_NEAR(own.op_time("adamw", DType::kFp32, {1000, 1, 1}, Bytes(0)).value(), 1e-6, 1e-18);
}

TEST(CostModel, ProgramIsTheSumOfItsOps) {
  using models::OpKind;
  models::Program program;
  program.tensors = {{"x", models::TensorPlace::kInput, DType::kFp32, Shape{1024, 64}, 0, {}},
                     {"w", models::TensorPlace::kParameter, DType::kFp32, Shape{64, 64}, 0, {}},
                     {"y", models::TensorPlace::kOutput, DType::kFp32, Shape{1024, 64}, 0, {}}};
  models::Op linear;
  linear.kind = OpKind::kLinearForward;
  linear.reads = {{0}, {1}, {}};
  linear.writes = {{2}};
  program.ops = {linear, linear};
  const CostModel costs(measured_cpu(), ranks_on_one_node(1));
  EXPECT_NEAR(costs.program(program).value(), 2 * costs.gemm(DType::kFp32, 1024, 64, 64).value(), 1e-15);
}

TEST(MachineDocument, KeepsMeasuredOpsAndRanks) {
  const Machine machine = measured_cpu();
  const Json document = machine.to_json();
  EXPECT_EQ(Machine::from_json(JsonView(document, "machine.json")), machine);
}

}  // namespace
}  // namespace zeroplan::planner
