#include "kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

StepScalars scalars_for(std::int64_t valid) {
  StepScalars scalars;
  scalars.loss_scale = 8;
  scalars.valid_tokens = valid;
  scalars.inverse_valid_tokens = 1.0 / static_cast<double>(valid);
  return scalars;
}

// A probability: 8 roundings of exp and the differences before it, vocabulary / 4 additions of positive terms, one
// product. The loss adds the roundings of logits below 25.
TEST(CrossEntropy, MatchesReference) {
  for (std::size_t vocabulary : {1u, 5u, 256u, 1003u}) {
    constexpr std::size_t kRows = 9;
    const auto logits = random_floats(kRows * vocabulary, 1, 3);
    std::vector<std::int32_t> labels;
    for (std::size_t r = 0; r < kRows; ++r) labels.push_back(static_cast<std::int32_t>(r * 7 % vocabulary));
    labels[2] = kIgnoredLabel;
    const StepScalars scalars = scalars_for(8);
    auto expected = widen(logits);
    std::vector<float> losses(kRows);
    reference::cross_entropy({.dtype = DType::kFp64,
                              .rows = kRows,
                              .vocabulary = vocabulary,
                              .labels = labels.data(),
                              .logits = expected.data(),
                              .row_losses = losses.data(),
                              .scalars = &scalars});
    const auto actual = same_for_all_workers([&](Workers& workers) {
      std::vector<float> result = logits;
      result.resize(result.size() + kRows);
      cpu::cross_entropy({.rows = kRows,
                          .vocabulary = vocabulary,
                          .labels = labels.data(),
                          .logits = result.data(),
                          .row_losses = result.data() + kRows * vocabulary,
                          .scalars = &scalars},
                         workers);
      return result;
    });
    expected.insert(expected.end(), losses.begin(), losses.end());
    const double relative = kRoundoff * (static_cast<double>(vocabulary) / 4 + 40);
    expect_within(actual, expected,
                  [&](std::size_t i) { return i < kRows * vocabulary ? relative : relative + 64 * kRoundoff; });
    for (std::size_t c = 0; c < vocabulary; ++c) EXPECT_EQ(actual[2 * vocabulary + c], 0.0f);
  }
}

TEST(CrossEntropy, GradientMatchesFiniteDifferences) {
  constexpr std::size_t kRows = 4, kVocabulary = 6;
  auto logits = widen(random_floats(kRows * kVocabulary, 1));
  const std::vector<std::int32_t> labels = {1, kIgnoredLabel, 5, 0};
  const StepScalars scalars = scalars_for(3);
  std::vector<float> losses(kRows);
  auto gradient = logits;
  reference::cross_entropy({.dtype = DType::kFp64,
                            .rows = kRows,
                            .vocabulary = kVocabulary,
                            .labels = labels.data(),
                            .logits = gradient.data(),
                            .row_losses = losses.data(),
                            .scalars = &scalars});
  // The losses that the kernel reports are fp32, too coarse for differences: the test sums its own in fp64.
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t r = 0; r < kRows; ++r) {
      if (labels[r] == kIgnoredLabel) continue;
      double total = 0;
      for (std::size_t c = 0; c < kVocabulary; ++c) total += std::exp(logits[r * kVocabulary + c]);
      sum += std::log(total) - logits[r * kVocabulary + static_cast<std::size_t>(labels[r])];
    }
    return sum * gradient_scale(scalars);
  };
  double reported = 0;
  for (float value : losses) reported += value;
  EXPECT_NEAR(loss(), reported * gradient_scale(scalars), 32 * kRoundoff * loss());
  expect_gradient(logits, gradient, loss, 1);
}

TEST(CrossEntropy, EvaluationKeepsTheLogits) {
  Workers workers(1);
  const auto logits = random_floats(20, 1);
  auto kept = logits;
  const std::vector<std::int32_t> labels = {3, 9};
  std::vector<float> losses(2);
  cpu::cross_entropy({.rows = 2,
                      .vocabulary = 10,
                      .labels = labels.data(),
                      .logits = kept.data(),
                      .row_losses = losses.data(),
                      .backward = false},
                     workers);
  EXPECT_TRUE(same_bits(kept, logits));
  StepScalars scalars;
  cpu::loss_sum({.rows = 2, .row_losses = losses.data(), .scalars = &scalars}, workers);
  EXPECT_EQ(scalars.loss_sum, static_cast<double>(losses[0]) + static_cast<double>(losses[1]));
}

TEST(CrossEntropy, NanAndInfinityReachTheLoss) {
  Workers workers(1);
  const StepScalars scalars = scalars_for(1);
  const std::vector<std::int32_t> labels = {3};
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto logits = random_floats(40, 1);
    logits[17] = bad;
    float loss = 0;
    cpu::cross_entropy({.rows = 1,
                        .vocabulary = 40,
                        .labels = labels.data(),
                        .logits = logits.data(),
                        .row_losses = &loss,
                        .scalars = &scalars},
                       workers);
    EXPECT_FALSE(std::isfinite(loss));
    EXPECT_FALSE(std::isfinite(logits[0]));
  }
}

}  // namespace
}  // namespace zeroplan::kernels
