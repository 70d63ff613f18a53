// Every knob is executed: each test reads the task stream that the runtime runs.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/tiny_models.h"

namespace zeroplan::planner {
namespace {

using testing::make_test_plan;
using testing::PlanSettings;

const Step& step_of(const Plan& plan, std::string_view name) {
  const Step* step = plan.find_step(name);
  EXPECT_NE(step, nullptr);
  return *step;
}

std::vector<const CollectiveWork*> collectives(const Step& step, TaskKind kind) {
  std::vector<const CollectiveWork*> result;
  for (const Task& task : step.tasks) {
    if (task.kind == kind) result.push_back(&std::get<CollectiveWork>(task.work));
  }
  return result;
}

/// Most elements gathered at once if each gather runs as early, and each release as late, as the waits allow.
struct LiveElements {
  std::uint64_t most = 0;
  std::uint64_t most_ahead = 0;  ///< gathered and not yet used by the running compute task
};

LiveElements live_elements(const Plan& plan, const Step& step) {
  std::map<TaskId, std::size_t> position;  // of compute tasks
  std::size_t computes = 0;
  for (const Task& task : step.tasks) {
    if (task.kind == TaskKind::kInput || task.program != kNoIndex) position[task.id] = computes++;
  }
  struct Stay {
    std::size_t from, first_use, last_use;
    std::uint64_t elements;
  };
  std::vector<Stay> stays;
  for (const Task& gather : step.tasks) {
    if (gather.kind != TaskKind::kGather || gather.key.starts_with("gather/updated")) continue;
    std::size_t from = 0;
    for (const TaskId wait : gather.waits) {
      if (position.contains(wait)) from = std::max(from, position[wait] + 1);
    }
    const auto& work = std::get<CollectiveWork>(gather.work);
    for (std::size_t p = 0; p < work.pieces.size(); ++p) {
      Stay stay{from, SIZE_MAX, 0, (work.pieces[p].end - work.pieces[p].begin) * plan.partition.ranks};
      for (const Task& user : step.tasks) {
        if (user.program == kNoIndex) continue;
        for (const Access& read : user.reads) {
          if (read.buffer != work.destination[p]) continue;
          stay.first_use = std::min(stay.first_use, position[user.id]);
          stay.last_use = std::max(stay.last_use, position[user.id]);
        }
      }
      stays.push_back(stay);
    }
  }
  LiveElements result;
  for (std::size_t c = 0; c < computes; ++c) {
    std::uint64_t live = 0;
    std::uint64_t ahead = 0;
    for (const Stay& stay : stays) {
      if (stay.from > c || stay.last_use < c) continue;
      live += stay.elements;
      if (stay.first_use > c) ahead += stay.elements;
    }
    result.most = std::max(result.most, live);
    result.most_ahead = std::max(result.most_ahead, ahead);
  }
  return result;
}

std::uint64_t largest_unit(const Plan& plan) {
  std::uint64_t most = 0;
  for (const auto& groups : plan.partition.groups_of_unit) {
    std::uint64_t sum = 0;
    for (const std::size_t g : groups) {
      if (!plan.partition.groups[g].is_small) sum += plan.partition.groups[g].padded.count();
    }
    most = std::max(most, sum);
  }
  return most;
}

TEST(Knobs, ReduceBucketsBoundEveryReductionAndCutGroups) {
  for (const std::uint64_t bucket : {512ULL, 4096ULL, 1ULL << 30}) {
    PlanSettings settings{.ranks = 2, .stage = 2, .fixed = {}};
    settings.fixed.reduce_bucket_size = bucket;
    const Plan plan = make_test_plan(testing::llama_config(), settings);
    std::uint64_t moved = 0;
    std::uint64_t all = 0;
    const auto reductions = collectives(step_of(plan, "only"), TaskKind::kReduce);
    for (const CollectiveWork* work : reductions) {
      EXPECT_LE(work->elements(plan.partition), bucket);
      moved += work->elements(plan.partition);
    }
    for (const ShardGroup& group : plan.partition.groups) all += group.padded.count();
    EXPECT_EQ(moved, all);
    if (bucket == 512) {
      EXPECT_GE(reductions.size(), all / 512);
    }
    if (bucket > all) {
      EXPECT_EQ(reductions.size(), 1u);  // everything coalesces
    }
  }
}

TEST(Knobs, AllGatherBucketsBoundEveryGather) {
  for (const std::uint64_t stage : {1ULL, 3ULL}) {
    PlanSettings settings{.ranks = 2, .stage = stage, .fixed = {}};
    settings.fixed.allgather_bucket_size = 2048;
    const Plan plan = make_test_plan(testing::llama_config(), settings);
    const auto gathers = collectives(step_of(plan, "only"), TaskKind::kGather);
    EXPECT_GT(gathers.size(), 10u);
    for (const CollectiveWork* work : gathers) EXPECT_LE(work->elements(plan.partition), 2048u);
  }
}

TEST(Knobs, BucketBelowTheSmallestPieceIsAnError) {
  PlanSettings settings{.ranks = 4, .stage = 2, .fixed = {}};
  settings.fixed.reduce_bucket_size = 100;
  EXPECT_THROW(make_test_plan(testing::llama_config(), settings), Error);
}

TEST(Knobs, PrefetchBoundsWhatIsGatheredAhead) {
  const std::uint64_t unit = largest_unit(make_test_plan(testing::llama_config(), {.stage = 3, .fixed = {}}));
  for (const std::uint64_t limit : {std::uint64_t{0}, unit, 2 * unit}) {
    PlanSettings settings{.ranks = 2, .stage = 3, .fixed = {}};
    settings.fixed.prefetch_bucket_size = limit;
    settings.fixed.max_live_parameters = 100 * unit;
    const Plan plan = make_test_plan(testing::llama_config(), settings);
    const LiveElements live = live_elements(plan, step_of(plan, "only"));
    EXPECT_LE(live.most_ahead, limit);
    if (limit > 0) {
      EXPECT_GT(live.most_ahead, 0u);
    }
  }
}

TEST(Knobs, MaxLiveBoundsWhatIsGathered) {
  const std::uint64_t unit = largest_unit(make_test_plan(testing::llama_config(), {.stage = 3, .fixed = {}}));
  for (const std::uint64_t limit : {unit, 2 * unit, 3 * unit}) {
    PlanSettings settings{.ranks = 2, .stage = 3, .fixed = {}};
    settings.fixed.prefetch_bucket_size = 100 * unit;
    settings.fixed.max_reuse_distance = 100 * unit;
    settings.fixed.max_live_parameters = limit;
    const Plan plan = make_test_plan(testing::llama_config(), settings);
    EXPECT_LE(live_elements(plan, step_of(plan, "only")).most, limit);
  }
  PlanSettings settings{.ranks = 2, .stage = 3, .fixed = {}};
  settings.fixed.max_live_parameters = unit - 1;
  EXPECT_THROW(make_test_plan(testing::llama_config(), settings), Error);
}

TEST(Knobs, ReuseDistanceKeepsGroupsGathered) {
  const auto gathers_of = [](std::uint64_t distance) {
    PlanSettings settings{.ranks = 2, .stage = 3, .fixed = {}};
    settings.fixed.max_reuse_distance = distance;
    settings.fixed.max_live_parameters = 1ULL << 30;
    settings.fixed.allgather_bucket_size = 1ULL << 30;
    const Plan plan = make_test_plan(testing::llama_config(), settings);
    std::size_t count = 0;
    for (const Task& task : step_of(plan, "only").tasks) {
      count += task.kind == TaskKind::kGather && !task.key.starts_with("gather/updated") ? 1 : 0;
    }
    return count;
  };
  const std::size_t none = gathers_of(0);
  const std::size_t all = gathers_of(1ULL << 30);
  EXPECT_LT(all, none);
  EXPECT_LE(all, 5u);  // embedding, three blocks and the head once each
}

TEST(Knobs, PersistenceThresholdKeepsSmallParametersWhole) {
  PlanSettings settings{.ranks = 2, .stage = 3, .fixed = {}};
  settings.fixed.param_persistence_threshold = 64;  // the norms
  const Plan plan = make_test_plan(testing::llama_config(), settings);
  for (const ShardGroup& group : plan.partition.groups) {
    for (const PartitionedTensor& tensor : group.tensors) EXPECT_EQ(tensor.elements.count() <= 64, group.is_small);
  }
  for (const Task& task : step_of(plan, "only").tasks) {
    if (task.kind != TaskKind::kGather || task.key.starts_with("gather/updated")) continue;
    for (const ShardPiece& piece : std::get<CollectiveWork>(task.work).pieces) {
      EXPECT_FALSE(plan.partition.groups[piece.group].is_small);
    }
  }
}

TEST(Knobs, SubGroupsCutTheUpdate) {
  PlanSettings settings{.ranks = 2, .stage = 1, .fixed = {}};
  settings.fixed.sub_group_size = 1000;
  const Plan plan = make_test_plan(testing::llama_config(), settings);
  std::uint64_t updated = 0;
  for (const Task& task : step_of(plan, "only").tasks) {
    if (task.kind != TaskKind::kUpdate) continue;
    std::uint64_t elements = 0;
    for (const UpdatePiece& piece : std::get<StateWork>(task.work).pieces)
      elements += piece.piece.end - piece.piece.begin;
    EXPECT_LE(elements, 1000u);
    updated += elements;
  }
  std::uint64_t all = 0;
  for (const ShardGroup& group : plan.partition.groups) all += group.shard.count();
  EXPECT_EQ(updated, all);
}

TEST(Knobs, RecomputeSavesNothingInTheChosenBlocks) {
  PlanSettings settings{.recompute = Recompute::kFull, .fixed = {}};
  settings.fixed.recompute_blocks = 2;
  const Plan plan = make_test_plan(testing::llama_config(), settings);
  std::set<std::string> saved;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.name.ends_with(" / saved")) saved.insert(buffer.name);
  }
  EXPECT_EQ(saved, (std::set<std::string>{"block 2 / saved"}));
}

TEST(Knobs, HeadChunksCutTheLogits) {
  const auto logits_rows = [](std::uint64_t chunks) {
    PlanSettings settings;
    settings.fixed.head_chunks = chunks;
    const Plan plan = make_test_plan(testing::llama_config(), settings);
    for (const models::Program& program : plan.programs) {
      for (const models::ProgramTensor& tensor : program.tensors) {
        if (tensor.name == "head.logits") return tensor.shape[0];
      }
    }
    return std::uint64_t{0};
  };
  EXPECT_EQ(logits_rows(1), 32u);
  EXPECT_EQ(logits_rows(4), 8u);
  EXPECT_EQ(logits_rows(5), 7u);
}

TEST(Knobs, AccumulationReducesOnceAtStage1AndEveryPassAtStage2) {
  const auto reductions = [](std::uint64_t stage, std::string_view step) {
    const Plan plan = make_test_plan(testing::llama_config(), {.stage = stage, .accumulation = 3, .fixed = {}});
    return collectives(step_of(plan, step), TaskKind::kReduce).size();
  };
  EXPECT_EQ(reductions(1, "first"), 0u);
  EXPECT_EQ(reductions(1, "middle"), 0u);
  EXPECT_GT(reductions(1, "last"), 0u);
  EXPECT_GT(reductions(2, "first"), 0u);
  EXPECT_EQ(reductions(2, "first"), reductions(2, "last"));
}

}  // namespace
}  // namespace zeroplan::planner
