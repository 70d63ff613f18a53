// Ten AdamW steps from the same weights and tokens as PyTorch, and every gradient of the first
// (tests/golden/README.md).
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gtest/gtest.h>

#include "models/safetensors.h"
#include "runtime/comm/loopback.h"
#include "runtime/executor.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::runtime {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance =
    1e-4;  // what the project promises, relative; fp32 sums of these sizes differ by about 1e-6
constexpr std::uint64_t kSteps = 10;
constexpr std::uint64_t kSequences = 2;
constexpr std::uint64_t kTokens = 32;

fs::path folder_of(const std::string& name) {
  return fs::path(ZP_SOURCE_DIR) / "tests/golden" / name;
}

std::vector<float> read_tensor(const models::TensorIndex& index, const std::string& name) {
  const auto found = index.find(name);
  if (found.entry == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<float> values(found.entry->shape.elements().count());
  found.file->read(*found.entry, Bytes(), std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<std::uint16_t> read_tokens(const fs::path& path) {
  std::vector<std::uint16_t> tokens(kSteps * kSequences * kTokens);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * 2));
  if (!file) throw std::runtime_error("tokens.bin is short");
  return tokens;
}

/// Feeds one golden's weights and tokens, and keeps what the steps show.
class GoldenHooks : public TaskHooks {
 public:
  GoldenHooks(const planner::Plan& plan, const fs::path& folder, std::uint64_t rank)
      : plan_(plan),
        weights_(models::TensorIndex::open(folder)),
        tokens_(read_tokens(folder / "tokens.bin")),
        rank_(rank) {}

  void input(const StepPosition& position, const InputTarget& target) override {
    const std::uint64_t rows = plan_.strategy.micro_batch;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t sequence = position.update * kSequences + rank_ * rows + row;
      for (std::uint64_t t = 0; t < kTokens; ++t) {
        const std::uint16_t* from = tokens_.data() + sequence * kTokens;
        target.tokens[row * kTokens + t] = from[t];
        target.labels[row * kTokens + t] = t + 1 < kTokens ? from[t + 1] : -100;
      }
    }
    if (target.scalars == nullptr) return;
    kernels::StepScalars& s = *target.scalars;
    s.learning_rate = 1e-3;
    s.weight_decay = 0.01;
    s.max_grad_norm = 1;
    s.valid_tokens = kSequences * (kTokens - 1);
    s.inverse_valid_tokens = 1.0 / static_cast<double>(s.valid_tokens);
    s.loss_sum = 0;
  }

  void load(const GroupState& state) override {
    auto* values = reinterpret_cast<float*>(state.parameters);
    std::fill(values, values + state.parameters_count.count(), 0.0f);
    const std::uint64_t begin = state.parameters_begin.count();
    const std::uint64_t end = begin + state.parameters_count.count();
    for (const planner::PartitionedTensor& tensor : plan_.partition.groups[state.group].tensors) {
      const auto from = read_tensor(weights_, plan_.model.parameters[tensor.parameter].name);
      for (std::uint64_t e = 0; e < from.size(); ++e) {
        const std::uint64_t at = tensor.offset.count() + e;
        if (at >= begin && at < end) values[at - begin] = from[e];
      }
    }
  }

  void save(const GroupState&) override {}

  void finished(const StepPosition& position, const kernels::StepScalars& scalars) override {
    losses.push_back(scalars.loss_sum * scalars.inverse_valid_tokens);
    norms.push_back(scalars.grad_norm);
    if (position.update == 0 && on_first_step) on_first_step();
  }

  std::vector<double> losses;
  std::vector<double> norms;
  std::function<void()> on_first_step;  ///< all gradients are there

 private:
  const planner::Plan& plan_;
  models::TensorIndex weights_;
  std::vector<std::uint16_t> tokens_;
  std::uint64_t rank_;
};

planner::Plan golden_plan(const std::string& name, std::uint64_t ranks, std::uint64_t stage) {
  const fs::path folder = folder_of(name);
  return testing::make_test_plan(
      read_json_file(folder / "config.json"),
      {.ranks = ranks, .stage = stage, .micro_batch = kSequences / ranks, .seq = kTokens, .fixed = {}});
}

/// Trains ten steps; `inspect` sees rank 0's executor when the first step's gradients are complete.
void train_golden(const std::string& name, const planner::Plan& plan,
                  const std::function<void(const Executor&)>& inspect) {
  const fs::path folder = folder_of(name);
  StopSignal stop;
  LoopbackGroup group(plan.training.gpus, stop);
  std::vector<std::unique_ptr<Collectives>> ends;
  std::vector<std::unique_ptr<GoldenHooks>> hooks;
  std::vector<std::unique_ptr<Executor>> ranks;
  for (std::uint64_t r = 0; r < plan.training.gpus; ++r) {
    ends.push_back(group.rank(r));
    hooks.push_back(std::make_unique<GoldenHooks>(plan, folder, r));
    ranks.push_back(std::make_unique<Executor>(plan, *ends[r], *hooks[r], stop, ExecutorOptions{}));
  }
  hooks[0]->on_first_step = [&] { inspect(*ranks[0]); };
  for (auto& rank : ranks) rank->start_phase("init");
  for (auto& rank : ranks) rank->wait();
  UpdateGate gate;
  gate.approve(kSteps);
  gate.close();
  for (auto& rank : ranks) rank->start_updates(0, gate);
  for (auto& rank : ranks) rank->wait();
  const Json expected = read_json_file(folder / "expected.json");
  ASSERT_EQ(hooks[0]->losses.size(), kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(hooks[0]->losses[i] / expected["losses"][i].get<double>(), 1, kTolerance)
        << name << ", loss of step " << i + 1;
    EXPECT_NEAR(hooks[0]->norms[i] / expected["grad_norms"][i].get<double>(), 1, kTolerance)
        << name << ", norm of step " << i + 1;
  }
}

/// |ours - theirs| / |theirs| of each parameter's gradient.
void compare_gradients(const std::string& name, const planner::Plan& plan, const Executor& executor) {
  const auto golden = models::TensorIndex::open(folder_of(name) / "gradients.safetensors");
  for (std::size_t p = 0; p < plan.model.parameters.size(); ++p) {
    const planner::ParameterPlace& place = plan.partition.places[p];
    const std::string holder = plan.partition.groups[place.group].name + " / gradients";
    const auto buffer =
        std::find_if(plan.buffers.begin(), plan.buffers.end(), [&](const auto& b) { return b.name == holder; });
    ASSERT_NE(buffer, plan.buffers.end());
    const auto* ours = reinterpret_cast<const float*>(executor.arenas().address(buffer->id)) + place.offset.count();
    const auto theirs = read_tensor(golden, plan.model.parameters[p].name);
    double difference = 0;
    double norm = 0;
    for (std::size_t e = 0; e < theirs.size(); ++e) {
      difference += (ours[e] - theirs[e]) * (ours[e] - theirs[e]);
      norm += theirs[e] * theirs[e];
    }
    EXPECT_LE(std::sqrt(difference), kTolerance * std::sqrt(norm)) << name << ", " << plan.model.parameters[p].name;
  }
}

class PytorchGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(PytorchGolden, TenStepsAndAllGradientsOnOneRank) {
  const planner::Plan plan = golden_plan(GetParam(), 1, 0);
  train_golden(GetParam(), plan, [&](const Executor& executor) { compare_gradients(GetParam(), plan, executor); });
}

TEST_P(PytorchGolden, TenStepsOnTwoRanksAtStage3) {
  const planner::Plan plan = golden_plan(GetParam(), 2, 3);
  train_golden(GetParam(), plan, [](const Executor&) {});
}

INSTANTIATE_TEST_SUITE_P(Models, PytorchGolden,
                         ::testing::Values("gpt2-tied", "gpt2-untied", "qwen2-tied", "qwen2-untied",
                                           "llama-rope-scaled", "qwen3-tied"));

}  // namespace
}  // namespace zeroplan::runtime
