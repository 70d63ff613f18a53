#include "planner/deepspeed/config_tree.h"

#include <gtest/gtest.h>

#include "planner/deepspeed/coercion.h"

namespace zeroplan::planner::deepspeed {
namespace {

ConfigTree tree(const char* text) {
  return ConfigTree(Json::parse(text));
}

TEST(ConfigTree, LooksUpDottedPathsWithDefaults) {
  const ConfigTree t = tree(R"({"a": {"b": {"c": 1, "n": null}}, "s": 5})");
  EXPECT_EQ(t.value_or("a.b.c", 7), 1);
  EXPECT_EQ(t.value_or("a.b.x", 7), 7);
  EXPECT_EQ(t.value_or("a.x.c", 7), 7);
  EXPECT_EQ(t.value_or("s.t", 7), 7);
  EXPECT_TRUE(t.value_or("a.b.n", 7).is_null());
}

TEST(ConfigTree, MissingIsNeitherTrueNorFalse) {
  const ConfigTree t =
      tree(R"({"yes": true, "no": false, "null": null, "zero": 0, "text": "false", "auto": "auto", "empty": ""})");
  EXPECT_TRUE(t.is_true("yes"));
  EXPECT_FALSE(t.is_false("yes"));
  EXPECT_TRUE(t.is_false("no"));
  EXPECT_TRUE(t.is_false("zero"));
  EXPECT_TRUE(t.is_false("empty"));
  EXPECT_TRUE(t.is_true("text"));
  EXPECT_TRUE(t.is_true("auto"));
  EXPECT_TRUE(t.is_auto("auto"));
  for (const char* path : {"null", "absent", "absent.below"}) {
    EXPECT_FALSE(t.is_true(path)) << path;
    EXPECT_FALSE(t.is_false(path)) << path;
  }
}

TEST(ConfigTree, StageAndOffloadTests) {
  EXPECT_TRUE(tree(R"({"zero_optimization": {"stage": 2}})").is_zero2());
  EXPECT_TRUE(tree(R"({"zero_optimization": {"stage": 3.0}})").is_zero3());
  EXPECT_FALSE(tree(R"({"zero_optimization": {"stage": "3"}})").is_zero3());
  EXPECT_FALSE(tree("{}").is_zero2());
  EXPECT_TRUE(tree(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})").is_offload());
  EXPECT_FALSE(tree(R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}})").is_offload());
  EXPECT_FALSE(tree(R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}}})").is_offload());
}

TEST(ConfigTree, RemovesSubTrees) {
  ConfigTree t = tree(R"({"a": {"b": 1, "c": 2}, "d": 3})");
  t.remove_sub_tree("a.b");
  t.remove_sub_tree("a.b");
  t.remove_sub_tree("x.y");
  EXPECT_EQ(t.root(), Json::parse(R"({"a": {"c": 2}, "d": 3})"));
  EXPECT_THROW(t.remove_sub_tree("a.b", true), Error);
  t.remove_sub_tree("a", true);
  EXPECT_EQ(t.root(), Json::parse(R"({"d": 3})"));
}

TEST(ConfigTree, SetsOnlyBelowExistingParents) {
  ConfigTree t = tree(R"({"a": {}, "s": 1})");
  EXPECT_TRUE(t.set("a.b", 1));
  EXPECT_FALSE(t.set("x.b", 1));
  EXPECT_FALSE(t.set("s.b", 1, false));
  EXPECT_TRUE(t.set("x.y.b", 1, false));
  EXPECT_EQ(t.root(), Json::parse(R"({"a": {"b": 1}, "s": 1, "x": {"y": {"b": 1}}})"));
}

TEST(Coercion, ConvertsAsStrictSectionsDo) {
  EXPECT_EQ(coerce_integer(Json(5e8)), 500'000'000);
  EXPECT_EQ(coerce_integer(Json("500000")), 500'000);
  EXPECT_EQ(coerce_integer(Json(" 1_000.0 ")), 1000);
  EXPECT_EQ(coerce_integer(Json("5e8")), std::nullopt);
  EXPECT_EQ(coerce_integer(Json(0.5)), std::nullopt);
  EXPECT_EQ(coerce_integer(Json(1e300)), std::nullopt);
  EXPECT_EQ(coerce_bool(Json("False")), false);
  EXPECT_EQ(coerce_bool(Json("maybe")), std::nullopt);
  EXPECT_EQ(coerce_bool(Json(2)), std::nullopt);
  EXPECT_EQ(coerce_number(Json("5e-5")), 5e-5);
  EXPECT_EQ(coerce_number(Json("x")), std::nullopt);
}

TEST(PythonEquality, NumbersAndTruthValuesMeet) {
  EXPECT_TRUE(python_equal(1, 1.0));
  EXPECT_TRUE(python_equal(true, 1));
  EXPECT_FALSE(python_equal("8", 8));
  EXPECT_TRUE(python_equal(Json::array({0.9, 1}), Json::array({0.9, 1.0})));
}

}  // namespace
}  // namespace zeroplan::planner::deepspeed
