// What transformers' own class answers about 500 generated configurations (tests/interop/make_semantics.py).
#include <array>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "planner/deepspeed/config_tree.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::array kPaths = {"train_batch_size",
                               "zero_optimization.stage",
                               "zero_optimization.overlap_comm",
                               "fp16.enabled",
                               "bf16.enabled",
                               "zero_optimization.offload_optimizer.device",
                               "optimizer.params.lr",
                               "absent.below.it"};
constexpr std::array kSubTrees = {"zero_optimization.offload_optimizer", "optimizer.params.lr", "scheduler"};

bool removes(ConfigTree& tree, const char* path) {
  try {
    tree.remove_sub_tree(path, true);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(ConfigSemantics, EqualThoseOfTransformers) {
  const std::filesystem::path file = std::filesystem::path(ZP_SOURCE_DIR) / "tests/deepspeed/config_semantics.jsonl";
  std::ifstream in(file);
  std::string line;
  std::size_t rows = 0;
  while (std::getline(in, line)) {
    const Json row = Json::parse(line);
    ConfigTree tree(row["config"]);
    for (std::size_t i = 0; i < kPaths.size(); ++i) {
      const Json answer = {tree.value_or(kPaths[i], "<missing>"), tree.is_true(kPaths[i]), tree.is_false(kPaths[i]),
                           tree.is_auto(kPaths[i])};
      EXPECT_EQ(answer, row["answers"][i]) << kPaths[i] << " of row " << rows;
    }
    EXPECT_EQ(Json({tree.is_zero2(), tree.is_zero3(), tree.is_offload()}), row["flags"]) << "row " << rows;
    Json removed = Json::array();
    for (const char* path : kSubTrees) removed.push_back(removes(tree, path));
    EXPECT_EQ(removed, row["removed"]) << "row " << rows;
    for (const auto& [key, left] : row["left"].items()) {
      EXPECT_EQ(tree.value_or(key, nullptr), left) << key << " of row " << rows;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 500u) << file;
}

}  // namespace
}  // namespace zeroplan::planner::deepspeed
