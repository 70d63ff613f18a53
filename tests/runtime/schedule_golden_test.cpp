// Every schedule against transformers' and DeepSpeed's own, step by step (tests/golden/README.md).
#include <cmath>

#include <gtest/gtest.h>

#include "models/core/json.h"
#include "runtime/optimizer/schedule.h"

namespace zeroplan::runtime {
namespace {

/// What `train` would be given for a case: --lr, --warmup-steps, --steps for transformers' schedules, else
/// --schedule-args.
ScheduleSettings settings_of(const Json& golden, const Json& each) {
  ScheduleSettings settings;
  settings.name = each["schedule"];
  settings.peak_rate = golden["base_rate"];
  for (const auto& [key, value] : each["arguments"].items()) {
    if (key == "num_warmup_steps") {
      settings.warmup_steps = value;
    } else if (key == "num_training_steps") {
      settings.total_steps = value;
    } else {
      settings.arguments[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  return settings;
}

void expect_close(double actual, double expected, std::size_t step) {
  EXPECT_NEAR(actual, expected, 1e-12 * std::abs(expected) + 1e-18) << "step " << step;
}

TEST(ScheduleGolden, EveryStepOfEachCase) {
  const Json golden = read_json_file(std::string(ZP_SOURCE_DIR) + "/tests/golden/schedules.json");
  std::size_t with_betas = 0;
  ASSERT_GE(golden["cases"].size(), 35u);
  for (const Json& each : golden["cases"]) {
    SCOPED_TRACE(each["schedule"].get<std::string>() + " " + each["arguments"].dump());
    const auto schedule = make_schedule(settings_of(golden, each));
    const bool moves = each.contains("betas");
    with_betas += moves ? 1 : 0;
    for (std::size_t step = 0; step < each["rates"].size(); ++step) {
      expect_close(schedule->rate(step), each["rates"][step], step);
      const auto momenta = schedule->momenta(step);
      ASSERT_EQ(momenta.has_value(), moves);
      if (!moves) continue;
      expect_close(momenta->beta1, each["betas"][step][0], step);
      expect_close(momenta->beta2, each["betas"][step][1], step);
    }
  }
  EXPECT_GE(with_betas, 6u);
}

}  // namespace
}  // namespace zeroplan::runtime
