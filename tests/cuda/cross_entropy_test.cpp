#include <cmath>

#include "tests/cuda/device_testing.h"

namespace zeroplan::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::gpu;
using testing::kRoundoff;
using testing::Operand;
using testing::run_twice;

class CudaCrossEntropy : public testing::EachType {};
ZP_EACH_TYPE(CudaCrossEntropy);

struct Shape {
  std::size_t rows, vocabulary, stride;
};

TEST_P(CudaCrossEntropy, LossAndGradient) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : {Shape{3, 1, 0}, Shape{5, 7, 0}, Shape{4, 1000, 1003}, Shape{6, 5257, 0}, Shape{3, 50304, 0}}) {
    for (const bool backward : {false, true}) {
      const std::size_t stride = s.stride == 0 ? s.vocabulary : s.stride;
      Operand logits = Operand::random(GetParam(), s.rows * stride, 1, 4);
      std::vector<std::int32_t> labels(s.rows);
      for (std::size_t r = 0; r < s.rows; ++r) labels[r] = static_cast<std::int32_t>(r * 37 % s.vocabulary);
      labels[1] = kIgnoredLabel;
      StepScalars scalars;
      scalars.loss_scale = 16;
      scalars.inverse_valid_tokens = 1.0 / 12;
      const DeviceArray<std::int32_t> device_labels(labels);
      const DeviceArray<StepScalars> device_scalars({scalars});
      std::vector<float> losses(s.rows);
      Operand row_losses = Operand::output(DType::kFp32, s.rows);
      CrossEntropy args{.dtype = DType::kFp64,
                        .rows = s.rows,
                        .vocabulary = s.vocabulary,
                        .labels = labels.data(),
                        .logits = logits.reference(),
                        .logits_stride = s.stride,
                        .row_losses = losses.data(),
                        .scalars = &scalars,
                        .backward = backward};
      const std::vector<double> before = logits.host();
      reference::cross_entropy(args);
      row_losses.host().assign(losses.begin(), losses.end());
      args.dtype = GetParam();
      args.labels = device_labels.get();
      args.logits = logits.device();
      args.row_losses = static_cast<float*>(row_losses.device());
      args.scalars = device_scalars.get();
      run_twice({&logits, &row_losses}, [&] { enqueue(args, gpu().launch()); });
      // Exponentials of up to |40|: the hardware's is off by 2 units and 2^-22 x 40; then sums over a tree.
      const double relative = kRoundoff * (2 + 4 * 40 + 16 + static_cast<double>(s.vocabulary) / 512);
      row_losses.expect_within([&](std::size_t r) { return relative + 4 * kRoundoff * std::abs(losses[r]); }, "loss");
      const double scale = 16.0 / 12;
      logits.expect_within([&](std::size_t) { return backward ? 2 * relative * scale : 0; }, "gradient");
      if (!backward) {
        EXPECT_EQ(logits.download(), before);
      }
    }
  }
}

TEST_P(CudaCrossEntropy, ExtremeLogits) {
  ZP_NEEDS_DEVICE();
  const double infinity = std::numeric_limits<double>::infinity();
  constexpr std::size_t kVocabulary = 40;
  std::vector<double> values(3 * kVocabulary, -infinity);
  values[5] = 2;                     // row 0: one label has all of it
  values[kVocabulary + 3] = 30000;   // row 1: far apart
  values[kVocabulary + 4] = -30000;  // (within fp16)
  values[2 * kVocabulary + 7] = std::nan("");
  Operand logits(GetParam(), values);
  const DeviceArray<std::int32_t> labels({5, 3, 7});
  const DeviceArray<StepScalars> scalars({StepScalars{}});
  Operand losses = Operand::output(DType::kFp32, 3);
  enqueue(CrossEntropy{.dtype = GetParam(),
                       .rows = 3,
                       .vocabulary = kVocabulary,
                       .labels = labels.get(),
                       .logits = logits.device(),
                       .row_losses = static_cast<float*>(losses.device()),
                       .scalars = scalars.get()},
          gpu().launch());
  testing::finish();
  const std::vector<double> result = losses.download();
  EXPECT_EQ(result[0], 0);
  EXPECT_EQ(result[1], 0);
  EXPECT_TRUE(std::isnan(result[2]));
}

TEST(CudaLoss, SumInDouble) {
  ZP_NEEDS_DEVICE();
  for (const std::size_t rows : {1u, 100u, 5000u}) {
    Operand losses = Operand::random(DType::kFp32, rows, 1);
    StepScalars scalars;
    scalars.loss_sum = 3;
    const DeviceArray<StepScalars> device({scalars});
    enqueue(LossSum{rows, static_cast<const float*>(losses.device()), device.get()}, gpu().launch());
    testing::finish();
    for (const double loss : losses.host()) scalars.loss_sum += loss;
    EXPECT_NEAR(device.download()[0].loss_sum, scalars.loss_sum, 1e-12 * static_cast<double>(rows));
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda
