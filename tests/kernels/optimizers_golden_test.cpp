// Twenty steps of each optimizer on one vector, as PyTorch's optimizers and the published formulas of Lion and
// FusedLamb give them (tests/golden/README.md).
#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "models/core/json.h"
#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

std::vector<float> floats_of(const Json& list) {
  return list.get<std::vector<float>>();
}

StepScalars scalars_of(const Json& arguments) {
  StepScalars s;
  if (arguments.contains("betas")) {
    s.beta1 = arguments["betas"][0];
    s.beta2 = arguments["betas"][1];
  }
  s.epsilon = arguments.value("eps", s.epsilon);
  s.weight_decay = arguments["weight_decay"];
  s.momentum = arguments.value("momentum", s.momentum);
  s.nesterov = arguments.value("nesterov", false) ? 1 : 0;
  s.min_coeff = arguments.value("min_coeff", s.min_coeff);
  s.max_coeff = arguments.value("max_coeff", s.max_coeff);
  return s;
}

/// One vector with the moments that any of them needs.
struct Vector {
  std::vector<float> parameter, first, second;

  void step(const std::string& optimizer, const std::vector<float>& gradient, const StepScalars& s, Workers& workers) {
    if (optimizer == "adamw") {
      cpu::adamw({.count = parameter.size(),
                  .parameter = parameter.data(),
                  .gradient = gradient.data(),
                  .first_moment = first.data(),
                  .second_moment = second.data(),
                  .scalars = &s},
                 workers);
      return;
    }
    if (optimizer == "lamb") return lamb(gradient, s, workers);
    const OptimizerStep args{.count = parameter.size(),
                             .parameter = parameter.data(),
                             .gradient = gradient.data(),
                             .first_moment = first.data(),
                             .second_moment = second.data(),
                             .scalars = &s};
    if (optimizer == "adam") return cpu::adam(args, workers);
    if (optimizer == "sgd") return cpu::sgd(args, workers);
    if (optimizer == "lion") return cpu::lion(args, workers);
    ASSERT_EQ(optimizer, "adagrad");
    cpu::adagrad(args, workers);
  }

 private:
  void lamb(const std::vector<float>& gradient, const StepScalars& s, Workers& workers) {
    cpu::lamb_moments({.count = parameter.size(),
                       .gradient = gradient.data(),
                       .first_moment = first.data(),
                       .second_moment = second.data(),
                       .scalars = &s},
                      workers);
    const LambSums sums = cpu::lamb_norms({.count = parameter.size(),
                                           .parameter = parameter.data(),
                                           .first_moment = first.data(),
                                           .second_moment = second.data(),
                                           .scalars = &s},
                                          workers);
    const double ratio = lamb_ratio(s, sums);
    cpu::lamb_update({.count = parameter.size(),
                      .parameter = parameter.data(),
                      .first_moment = first.data(),
                      .second_moment = second.data(),
                      .ratio = &ratio,
                      .scalars = &s},
                     workers);
  }
};

// A step rounds p at most twice here and twice there; the roundings of the update, some ten of them, carry a factor of
// at most lr x the amplification of the moments, below 0.1. So 6 unit roundoffs a step, of the larger of 1 and |p|.
TEST(OptimizersGolden, TwentyStepsOfEachCase) {
  const Json golden = read_json_file(std::string(ZP_SOURCE_DIR) + "/tests/golden/optimizers.json");
  const std::size_t elements = golden["elements"];
  Workers workers(1);
  ASSERT_EQ(golden["cases"].size(), 14u);
  for (const Json& each : golden["cases"]) {
    SCOPED_TRACE(each["optimizer"].get<std::string>() + " " + each["arguments"].dump());
    Vector vector{floats_of(golden["start"]), std::vector<float>(elements), std::vector<float>(elements)};
    StepScalars s = scalars_of(each["arguments"]);
    for (std::size_t step = 0; step < golden["steps"].get<std::size_t>(); ++step) {
      s.learning_rate = each["arguments"]["lr"].get<double>() * golden["factors"][step].get<double>();
      advance_optimizer_step(s);
      vector.step(each["optimizer"], floats_of(golden["gradients"][step]), s, workers);
      const auto expected = each["after"][step].get<std::vector<double>>();
      expect_within(vector.parameter, expected, [&](std::size_t i) {
        return 6 * kRoundoff * static_cast<double>(step + 1) * std::max(1.0, std::abs(expected[i]));
      });
    }
  }
}

}  // namespace
}  // namespace zeroplan::kernels
