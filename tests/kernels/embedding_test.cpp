#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include "kernels/rotary.h"
#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

constexpr std::size_t kTokens = 24, kLength = 8, kVocabulary = 5, kPositions = 9, kWidth = 37;
const std::vector<std::int32_t> kIds = {0, 1, 2, 3, 3, 3, 0, 1, 2, 3, 0, 0, 0, 1, 3, 2, 1, 1, 0, 2, 2, 2, 2, 0};

TEST(Embedding, ForwardAddsTokenAndPosition) {
  const auto table = random_floats(kVocabulary * kWidth, 1);
  const auto positions = random_floats(kPositions * kWidth, 2);
  const auto actual = same_for_all_workers([&](Workers& workers) {
    std::vector<float> out(kTokens * kWidth);
    cpu::embedding_forward({.tokens = kTokens,
                            .width = kWidth,
                            .sequence_length = kLength,
                            .ids = kIds.data(),
                            .token_table = table.data(),
                            .position_table = positions.data(),
                            .out = out.data()},
                           workers);
    return out;
  });
  std::vector<float> expected(kTokens * kWidth);
  reference::embedding_forward({.tokens = kTokens,
                                .width = kWidth,
                                .sequence_length = kLength,
                                .ids = kIds.data(),
                                .token_table = table.data(),
                                .position_table = positions.data(),
                                .out = expected.data()});
  EXPECT_TRUE(same_bits(actual, expected));  // one addition, rounded once in both
}

// Each element sums at most kTokens terms below 5.
TEST(Embedding, BackwardMatchesReference) {
  const auto d_out = random_floats(kTokens * kWidth, 3);
  const auto wide = widen(d_out);
  for (bool accumulate : {false, true}) {
    std::vector<double> expected((kVocabulary + kPositions) * kWidth, 1.0);
    reference::embedding_backward({.dtype = DType::kFp64,
                                   .gradient_dtype = DType::kFp64,
                                   .tokens = kTokens,
                                   .width = kWidth,
                                   .sequence_length = kLength,
                                   .vocabulary = kVocabulary,
                                   .positions = kPositions,
                                   .ids = kIds.data(),
                                   .d_out = wide.data(),
                                   .d_token_table = expected.data(),
                                   .d_position_table = expected.data() + kVocabulary * kWidth,
                                   .accumulate = accumulate,
                                   .accumulate_position = accumulate});
    const auto actual = same_for_all_workers([&](Workers& workers) {
      std::vector<float> result((kVocabulary + kPositions) * kWidth, 1.0f);
      cpu::embedding_backward({.tokens = kTokens,
                               .width = kWidth,
                               .sequence_length = kLength,
                               .vocabulary = kVocabulary,
                               .positions = kPositions,
                               .ids = kIds.data(),
                               .d_out = d_out.data(),
                               .d_token_table = result.data(),
                               .d_position_table = result.data() + kVocabulary * kWidth,
                               .accumulate = accumulate,
                               .accumulate_position = accumulate},
                              workers);
      return result;
    });
    expect_within(actual, expected, [](std::size_t) { return kRoundoff * 5 * kTokens * kTokens; });
  }
}

TEST(Embedding, GradientMatchesFiniteDifferences) {
  auto tables = widen(random_floats((kVocabulary + kPositions) * kWidth, 1));
  const auto d_out = widen(random_floats(kTokens * kWidth, 3));
  std::vector<double> gradient(tables.size());
  reference::embedding_backward({.dtype = DType::kFp64,
                                 .gradient_dtype = DType::kFp64,
                                 .tokens = kTokens,
                                 .width = kWidth,
                                 .sequence_length = kLength,
                                 .vocabulary = kVocabulary,
                                 .positions = kPositions,
                                 .ids = kIds.data(),
                                 .d_out = d_out.data(),
                                 .d_token_table = gradient.data(),
                                 .d_position_table = gradient.data() + kVocabulary * kWidth});
  const auto loss = [&] {
    std::vector<double> out(kTokens * kWidth);
    reference::embedding_forward({.dtype = DType::kFp64,
                                  .tokens = kTokens,
                                  .width = kWidth,
                                  .sequence_length = kLength,
                                  .ids = kIds.data(),
                                  .token_table = tables.data(),
                                  .position_table = tables.data() + kVocabulary * kWidth,
                                  .out = out.data()});
    return dot(out, d_out);
  };
  expect_gradient(tables, gradient, loss, 10);
}

// Two products and a sum of values below 5.
TEST(Rotary, MatchesReferenceAndInverts) {
  constexpr std::size_t kHeads = 3;
  for (std::size_t size : {2u, 6u, 64u}) {
    std::vector<float> table(kLength * size);
    fill_rotary_table({.positions = kLength, .head_size = size, .table = table.data()});
    const std::size_t stride = kHeads * size + 5;
    const auto x = random_floats(kTokens * stride, 6);
    auto expected = widen(x);
    const Rotary args{.tokens = kTokens,
                      .heads = kHeads,
                      .head_size = size,
                      .sequence_length = kLength,
                      .table = table.data(),
                      .x_stride = stride};
    Rotary wide = args;
    wide.dtype = DType::kFp64;
    wide.x = expected.data();
    reference::rotary(wide);
    const auto actual = same_for_all_workers([&](Workers& workers) {
      std::vector<float> result = x;
      Rotary forward = args;
      forward.x = result.data();
      cpu::rotary(forward, workers);
      return result;
    });
    expect_within(actual, expected, [](std::size_t) { return kRoundoff * 40; });
    std::vector<float> back = actual;
    Workers workers(1);
    Rotary inverse = args;
    inverse.x = back.data();
    inverse.inverse = true;
    cpu::rotary(inverse, workers);
    expect_within(back, widen(x), [](std::size_t) { return kRoundoff * 100; });
  }
}

// The gradient of a rotation is the inverse rotation.
TEST(Rotary, GradientMatchesFiniteDifferences) {
  std::vector<float> table(4 * 6);
  fill_rotary_table({.positions = 4, .head_size = 6, .table = table.data()});
  auto x = widen(random_floats(4 * 12, 1));
  const auto d_y = widen(random_floats(4 * 12, 2));
  const auto rotated = [&](std::vector<double> values, bool inverse) {
    reference::rotary({.dtype = DType::kFp64,
                       .tokens = 4,
                       .heads = 2,
                       .head_size = 6,
                       .sequence_length = 4,
                       .table = table.data(),
                       .x = values.data(),
                       .inverse = inverse});
    return values;
  };
  expect_gradient(
      x, rotated(d_y, true), [&] { return dot(rotated(x, false), d_y); }, 1);
}

TEST(RotaryTable, ScalesFrequencies) {
  std::vector<float> plain(4 * 8), linear(4 * 8), llama3(4 * 8);
  fill_rotary_table({.positions = 4, .head_size = 8, .theta = 10000, .table = plain.data()});
  fill_rotary_table({.positions = 4,
                     .head_size = 8,
                     .theta = 10000,
                     .scaling = RotaryScaling::kLinear,
                     .factor = 2,
                     .table = linear.data()});
  // Wavelengths 2 pi x (1, 10, 100, 1000) against 40 and 10 (high factor 4 of 40): kept, blended, stretched, stretched.
  fill_rotary_table({.positions = 4,
                     .head_size = 8,
                     .theta = 10000,
                     .scaling = RotaryScaling::kLlama3,
                     .factor = 8,
                     .low_frequency_factor = 0.5,
                     .high_frequency_factor = 4,
                     .original_positions = 40,
                     .table = llama3.data()});
  EXPECT_FLOAT_EQ(plain[2 * 8 + 1], static_cast<float>(std::cos(0.2)));
  EXPECT_FLOAT_EQ(plain[2 * 8 + 4 + 1], static_cast<float>(std::sin(0.2)));
  EXPECT_FLOAT_EQ(linear[2 * 8 + 4], static_cast<float>(std::sin(1.0)));
  EXPECT_FLOAT_EQ(llama3[8 + 4], static_cast<float>(std::sin(1.0)));
  const double wavelength = 2 * 3.14159265358979323846 * 10;
  const double smooth = (40 / wavelength - 0.5) / 3.5;
  EXPECT_FLOAT_EQ(llama3[8 + 5], static_cast<float>(std::sin((1 - smooth) * 0.1 / 8 + smooth * 0.1)));
  EXPECT_FLOAT_EQ(llama3[8 + 6], static_cast<float>(std::sin(0.01 / 8)));
}

}  // namespace
}  // namespace zeroplan::kernels
