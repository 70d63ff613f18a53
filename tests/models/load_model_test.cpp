#include "models/load_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/parameter_summary.h"
#include "models/presets.h"
#include "models/rope.h"
#include "models/safetensors_writer.h"
#include "tests/models/model_testing.h"

namespace zeroplan::models {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> listing(const Model& model) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : model.parameters)
    lines.push_back(parameter.name + " " + to_string(parameter.shape));
  return lines;
}

TEST(LoadModel, EveryPresetIsAModelOfItsName) {
  for (const Preset& preset : presets()) {
    const Model model = load_model(std::string(preset.name));
    EXPECT_EQ(model.name, preset.name);
    EXPECT_GT(model.total().count(), 0u) << preset.name;
    EXPECT_EQ(listing(model), listing(build_model(model.config, model.source))) << preset.name;
  }
}

TEST(LoadModel, PresetsHaveTheirPublishedSizes) {
  EXPECT_EQ(load_model("gpt2").total().count(), 124'439'808u);
  EXPECT_EQ(load_model("llama-3.1-8b").total().count(), 8'030'261'248u);
  EXPECT_EQ(load_model("qwen2.5-7b").total().count(), 7'615'616'512u);
  EXPECT_EQ(load_model("deepseek-v3").total().count(), 671'026'404'352u);
  EXPECT_EQ(load_model("tiny-llama-bytes").total().count(), 803'968u);
}

TEST(LoadModel, UnknownNameSuggestsTheNearest) {
  const Error error = error_of([] { load_model("llama-3.1-8bb"); });
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_THAT(error.hint(), HasSubstr("llama-3.1-8b"));
}

TEST(LoadModel, FileAndFolderGiveTheSameModel) {
  const TemporaryFolder folder;
  const std::string file = folder.write("config.json", R"({"model_type": "gpt2", "n_layer": 2})");
  const Model from_file = load_model(file);
  const Model from_folder = load_model(folder.path().string());
  EXPECT_EQ(listing(from_file), listing(from_folder));
  EXPECT_EQ(from_file.name, folder.path().filename().string());
  EXPECT_EQ(from_folder.source, folder.path().string());
}

TEST(LoadModel, BrokenJsonSaysWhere) {
  const TemporaryFolder folder;
  const std::string file = folder.write("c.json", "{\n  \"model_type\": \"gpt2\",\n}");
  const Error error = error_of([&] { load_model(file); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(error.place().line, 3u);
  EXPECT_EQ(error.place().column, 1u);
}

TEST(LoadModel, FolderWithoutModel) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { load_model(folder.path().string()); }).code(), ErrorCode::kInvalidInput);
}

TEST(LoadModel, UnknownFamilyFallsBackToItsTensors) {
  const TemporaryFolder folder;
  const std::vector<TensorToWrite> tensors = {
      {"emb.weight", DType::kBf16, {8, 4}}, {"layers.0.w", DType::kBf16, {4, 4}}, {"layers.1.w", DType::kBf16, {4, 4}}};
  write_safetensors_file(folder.path() / "model.safetensors", tensors, [](std::size_t, Bytes, std::span<std::byte>) {});
  folder.write("config.json", R"({"model_type": "mamba"})");
  const Model model = load_model(folder.path().string());
  EXPECT_EQ(model.family, "mamba");
  EXPECT_EQ(model.total().count(), 64u);
  EXPECT_EQ(model.units.size(), 3u);
  EXPECT_EQ(model.checkpoint_dtype, DType::kBf16);
  EXPECT_THAT(model.notes, Contains(HasSubstr("unknown")));
  EXPECT_EQ(load_model((folder.path() / "model.safetensors").string()).total().count(), 64u);
}

TEST(NativeShape, QwenHasBiasesAndTies) {
  const Model model = load_model("qwen2.5-0.5b");
  ASSERT_TRUE(model.decoder.has_value());
  EXPECT_TRUE(model.decoder->qkv_bias);
  EXPECT_FALSE(model.decoder->attention_out_bias);
  EXPECT_TRUE(model.decoder->tied_head);
  EXPECT_EQ(model.decoder->rope_theta, 1e6);
  EXPECT_EQ(model.decoder->sliding_window, 0u);
  EXPECT_THAT(model.native_obstacles, IsEmpty());
}

TEST(NativeShape, UnknownMathsIsAnObstacle) {
  EXPECT_THAT(model_of(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})").native_obstacles,
              ElementsAre(HasSubstr("scale_attn_by_inverse_layer_idx is true")));
  EXPECT_THAT(model_of(R"({"model_type": "gpt2", "activation_function": "relu"})").native_obstacles,
              ElementsAre(HasSubstr("relu")));
  EXPECT_THAT(model_of(R"({"model_type": "llama", "hidden_act": "gelu"})").native_obstacles,
              ElementsAre(HasSubstr("gelu")));
  EXPECT_THAT(model_of(R"({"model_type": "llama", "partial_rotary_factor": 0.5})").native_obstacles,
              ElementsAre(HasSubstr("partial_rotary_factor")));
  EXPECT_THAT(model_of(R"({"model_type": "llama", "architectures": ["LlamaModel"]})").native_obstacles,
              ElementsAre(HasSubstr("causal language models")));
  EXPECT_THAT(
      model_of(R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})").native_obstacles,
      ElementsAre(HasSubstr("yarn")));
}

TEST(Rope, BothSpellingsAreOne) {
  const Model older = model_of(R"({"model_type": "llama", "rope_theta": 500000.0, "rope_scaling": {"type": "linear",
                                   "factor": 2.0}})");
  const Model newer =
      model_of(R"({"model_type": "llama", "rope_parameters": {"rope_theta": 500000.0, "rope_type": "linear",
                                   "factor": 2.0}})");
  EXPECT_EQ(older.decoder->rope_theta, newer.decoder->rope_theta);
  EXPECT_EQ(inverse_frequencies(*older.decoder), inverse_frequencies(*newer.decoder));
  EXPECT_DOUBLE_EQ(inverse_frequencies(*older.decoder).at(0), 0.5);
}

TEST(Rope, Llama3StretchesOnlyLongWaves) {
  const Model model = load_model("llama-3.1-8b");
  DecoderShape plain = *model.decoder;
  plain.rope_scaling.reset();
  const std::vector<double> scaled = inverse_frequencies(*model.decoder);
  const std::vector<double> unscaled = inverse_frequencies(plain);
  ASSERT_EQ(scaled.size(), 64u);
  EXPECT_DOUBLE_EQ(scaled.front(), unscaled.front());
  EXPECT_DOUBLE_EQ(scaled.back(), unscaled.back() / 8);
}

TEST(ParameterSummary, ActiveCountsTheChosenExperts) {
  const Model model = load_model("mixtral-8x7b");
  // 32 layers x 6 idle experts x 3 matrices of 4096 x 14336
  EXPECT_EQ(model.total().count() - model.active().count(), 32ull * 6 * 3 * 4096 * 14336);
}

TEST(Freeze, MatchesPartsOfNames) {
  Model model = load_model("tiny-llama-bytes");
  freeze(model, std::vector<std::string>{"mlp"});
  EXPECT_EQ(model.total().count() - model.trainable().count(), 4ull * 3 * 128 * 352);
  freeze(model, std::vector<std::string>{"layers.*.self_attn.?_proj"});
  EXPECT_EQ(model.trainable().count(), 2ull * 256 * 128 + 4 * 2 * 128 + 128);
  freeze(model, std::vector<std::string>{"*"});
  EXPECT_EQ(model.trainable().count(), 0u);
}

TEST(Freeze, PatternWithoutMatchIsAnError) {
  Model model = load_model("gpt2");
  const Error error = error_of([&] { freeze(model, std::vector<std::string>{"mlp", "nothing"}); });
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_EQ(error.place().value, "nothing");
}

TEST(Freeze, WhisperPositionsAreFrozenFromTheStart) {
  const Model model = load_model("whisper-small");
  EXPECT_EQ(model.total().count() - model.trainable().count(), 1500u * 768);
}

TEST(Glob, StarAndQuestionMark) {
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(matches_glob("?_proj", "q_proj"));
  EXPECT_FALSE(matches_glob("?_proj", "_proj"));
  EXPECT_FALSE(matches_glob("a*b", "abc"));
}

}  // namespace
}  // namespace zeroplan::models
