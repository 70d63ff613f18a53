// What a budget allows and what to change: every answer is checked by asking again.
#include "simulator/profiles/advice.h"

#include <gtest/gtest.h>

#include "tests/models/model_testing.h"

namespace zeroplan::simulator {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

class Advice : public testing::Test {
 protected:
  Advice()
      : model_(models::model_of(
            R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 256, "n_head": 4, "n_layer": 6,
                "n_positions": 1024, "vocab_size": 8192, "attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0})")) {
    spec_.framework = planner::Framework::kPytorch;
    spec_.precision = planner::Precision::kFp32;
    spec_.seq = 512;
    strategy_.stage = 0;
    strategy_.micro_batch = 4;
    trained_ = trained_parameters(model_, spec_);
  }

  std::uint64_t process_bytes(std::uint64_t micro_batch, std::uint64_t seq) const {
    planner::TrainingSpec spec = spec_;
    spec.seq = seq;
    planner::Strategy strategy = strategy_;
    strategy.micro_batch = micro_batch;
    return predict_peak({model_, trained_, spec, strategy, nullptr, {}}).process_bytes();
  }
  BudgetAnswer ask(std::uint64_t budget) const {
    const ProfileRequest request{model_, trained_, spec_, strategy_, nullptr, {}};
    return answer_for_budget(request, predict_peak(request), Bytes(budget));
  }

  models::Model model_;
  planner::TrainingSpec spec_;
  planner::Strategy strategy_;
  TrainedParameters trained_;
};

TEST_F(Advice, LargestMicroBatchFitsAndTheNextDoesNot) {
  const std::uint64_t budget = 1500 * kMib;
  const BudgetAnswer answer = ask(budget);
  ASSERT_GE(answer.largest_micro_batch, 1U);
  EXPECT_LE(process_bytes(answer.largest_micro_batch, spec_.seq), budget);
  EXPECT_GT(process_bytes(answer.largest_micro_batch + 1, spec_.seq), budget);
}

TEST_F(Advice, LongestSequenceFitsAndTheNextDoesNot) {
  const std::uint64_t budget = 1200 * kMib;
  const BudgetAnswer answer = ask(budget);
  ASSERT_GE(answer.largest_seq, kSeqStep);
  ASSERT_LT(answer.largest_seq, 1024U);
  EXPECT_LE(process_bytes(strategy_.micro_batch, answer.largest_seq), budget);
  EXPECT_GT(process_bytes(strategy_.micro_batch, answer.largest_seq + kSeqStep), budget);
}

TEST_F(Advice, NoSequenceIsLongerThanTheModelTakes) {
  EXPECT_EQ(ask(std::uint64_t{1} << 40).largest_seq, 1024U);
}

TEST_F(Advice, WhatFitsNeedsNoChange) {
  EXPECT_TRUE(ask(std::uint64_t{1} << 40).changes.empty());
}

TEST_F(Advice, ChangesSaveWhatTheySay) {
  const std::uint64_t now = process_bytes(strategy_.micro_batch, spec_.seq);
  const BudgetAnswer answer = ask(now - 1);
  ASSERT_FALSE(answer.changes.empty());
  EXPECT_LE(answer.changes.size(), 3U);
  bool earlier_fits = true;
  for (const Change& c : answer.changes) {
    EXPECT_EQ(c.process_bytes + c.saved_bytes, now) << c.flags;
    EXPECT_EQ(c.fits, c.process_bytes <= now - 1) << c.flags;
    EXPECT_TRUE(earlier_fits || !c.fits) << c.flags;
    earlier_fits = c.fits;
  }
}

TEST_F(Advice, NothingFitsBelowTheContext) {
  const BudgetAnswer answer = ask(kMib);
  EXPECT_EQ(answer.largest_micro_batch, 0U);
  EXPECT_EQ(answer.largest_seq, 0U);
  for (const Change& c : answer.changes) EXPECT_FALSE(c.fits);
}

}  // namespace
}  // namespace zeroplan::simulator
