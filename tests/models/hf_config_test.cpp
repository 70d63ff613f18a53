// Configs that are wrong, and what absent keys mean.
#include "models/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/models/model_testing.h"

namespace zeroplan::models {
namespace {

using testing::Contains;
using testing::HasSubstr;

struct BadConfig {
  std::string name;
  std::string config;
  std::string key;     ///< of the error's place
  std::string expect;  ///< a part of its message
};

class HfConfigRejects : public testing::TestWithParam<BadConfig> {};

TEST_P(HfConfigRejects, WithFileKeyValueAndHint) {
  const Error error = error_of([] { model_of(GetParam().config); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput) << error.message();
  EXPECT_EQ(error.place().file, "config.json");
  EXPECT_EQ(error.place().key, GetParam().key) << error.message();
  EXPECT_THAT(error.message(), HasSubstr(GetParam().expect));
  EXPECT_FALSE(error.hint().empty()) << error.message();
}

INSTANTIATE_TEST_SUITE_P(
    Configs, HfConfigRejects,
    testing::Values(
        BadConfig{"NoFamily", R"({"hidden_size": 64})", "model_type", "expected the name of a model family"},
        BadConfig{"ZeroHeads", R"({"model_type": "llama", "num_attention_heads": 0})", "num_attention_heads",
                  "from 1 to"},
        BadConfig{"HeadsDoNotDivideWidth", R"({"model_type": "gpt2", "n_embd": 770, "n_head": 12})", "n_head",
                  "expected a divisor of hidden size 770"},
        BadConfig{"KvHeadsDoNotDivideHeads", R"({"model_type": "llama", "num_key_value_heads": 5})",
                  "num_key_value_heads", "expected a divisor of num_attention_heads 32"},
        BadConfig{"StringNumber", R"({"model_type": "llama", "hidden_size": "4096"})", "hidden_size", "\"4096\""},
        BadConfig{"Negative", R"({"model_type": "llama", "num_hidden_layers": -2})", "num_hidden_layers", "-2"},
        BadConfig{"Fraction", R"({"model_type": "llama", "intermediate_size": 10.5})", "intermediate_size", "10.5"},
        BadConfig{"Huge", R"({"model_type": "llama", "hidden_size": 1e15})", "hidden_size", "from 1 to 16777216"},
        BadConfig{"BeyondAllIntegers", R"({"model_type": "llama", "vocab_size": 99999999999999999999})", "vocab_size",
                  "from 1 to"},
        BadConfig{"TooManyLayers", R"({"model_type": "gpt2", "n_layer": 1000000000})", "n_layer", "from 1 to 10000"},
        BadConfig{"Boolean", R"({"model_type": "llama", "vocab_size": true})", "vocab_size", "true"},
        BadConfig{"FlagAsText", R"({"model_type": "llama", "tie_word_embeddings": "no"})", "tie_word_embeddings",
                  "true or false"},
        BadConfig{"ContradictorySpellings", R"({"model_type": "bloom", "n_embed": 64, "hidden_size": 128})", "n_embed",
                  "the same as hidden_size"},
        BadConfig{"UnknownType", R"({"model_type": "llama", "torch_dtype": "float7"})", "torch_dtype", "float7"},
        BadConfig{
            "CompositeWithZeroHeads",
            R"({"model_type": "llava", "vision_config": {"model_type": "clip_vision_model", "num_attention_heads": 0}})",
            "vision_config.num_attention_heads", "from 1 to"},
        BadConfig{"TextConfigOfNoObject", R"({"model_type": "llava", "text_config": 7})", "text_config", "an object"},
        BadConfig{"UnknownTextModel", R"({"model_type": "llava", "text_config": {"model_type": "nobody"}})",
                  "text_config.model_type", "nobody"},
        BadConfig{"OddHeads", R"({"model_type": "llama", "head_dim": 7})", "head_dim", "even"},
        BadConfig{"Dropout", R"({"model_type": "gpt2", "attn_pdrop": 1.5})", "attn_pdrop", "from 0 to 1"},
        BadConfig{"RopeScalingWithoutFactor", R"({"model_type": "llama", "rope_scaling": {"type": "linear"}})",
                  "rope_scaling.factor", "lacks"},
        BadConfig{"MoreExpertsPerTokenThanExperts",
                  R"({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5})",
                  "num_experts_per_tok", "from 1 to 4"},
        BadConfig{"PatchLargerThanImage", R"({"model_type": "vit", "patch_size": 512})", "patch_size", "image_size"},
        BadConfig{"StagesWithoutDepth", R"({"model_type": "convnext", "hidden_sizes": [8, 16]})", "hidden_sizes",
                  "depths"}),
    [](const auto& test) { return test.param.name; });

TEST(HfConfig, SumBeyond64BitsIsAnError) {
  const Error error = error_of([] {
    model_of(
        R"({"model_type": "mixtral", "hidden_size": 16777216, "intermediate_size": 16777216, "num_local_experts": 65536,
                 "num_experts_per_tok": 2})");
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(error.message(), HasSubstr("do not fit 64 bits"));
}

TEST(HfConfig, ConfigIsNoObject) {
  EXPECT_EQ(error_of([] { model_of("[1, 2]"); }).code(), ErrorCode::kInvalidInput);
}

TEST(HfConfig, UnknownFamilyNamesTheKnownOnes) {
  const Error error = error_of([] { model_of(R"({"model_type": "mamba"})"); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("qwen3_moe"));
  EXPECT_THAT(error.hint(), HasSubstr("safetensors"));
}

TEST(HfConfig, DefaultsAreTold) {
  const Model model = model_of(R"({"model_type": "mistral", "hidden_size": 4096})");
  EXPECT_THAT(model.notes, Contains(HasSubstr("num_key_value_heads = 8")));
  EXPECT_EQ(model.decoder->kv_heads, 8u);
  EXPECT_EQ(model.decoder->sliding_window, 4096u);
}

TEST(HfConfig, NullMeansTheRuleNotTheDefault) {
  EXPECT_EQ(model_of(R"({"model_type": "mistral", "sliding_window": null})").decoder->sliding_window, 0u);
  EXPECT_EQ(model_of(R"({"model_type": "llama", "head_dim": null, "num_key_value_heads": null})").decoder->kv_heads,
            32u);
}

TEST(HfConfig, OldConfigWithoutModelTypeIsKnownByItsClass) {
  EXPECT_EQ(model_of(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_head": 2})").family, "gpt2");
}

TEST(HfConfig, DropoutGetsANote) {
  EXPECT_THAT(model_of(R"({"model_type": "gpt2"})").notes, Contains(HasSubstr("resid_pdrop = 0.1")));
  EXPECT_THAT(model_of(R"({"model_type": "gpt2", "attn_pdrop": 0.2})").notes, Contains(HasSubstr("attn_pdrop = 0.2")));
}

TEST(HfConfig, QuantisedCheckpointsAreRecognised) {
  const std::string start = R"({"model_type": "llama", "quantization_config": )";
  EXPECT_EQ(model_of(start + R"({"quant_method": "awq", "bits": 4}})").quantisation, "awq");
  EXPECT_EQ(model_of(start + R"({"quant_method": "gptq", "bits": 4}})").quantisation, "gptq");
  const Model model = model_of(start + R"({"load_in_4bit": true}})");
  EXPECT_EQ(model.quantisation, "bitsandbytes");
  EXPECT_THAT(model.notes, Contains(HasSubstr("4-bit bitsandbytes")));
  EXPECT_THAT(model.native_obstacles, Contains(HasSubstr("unquantised")));
}

}  // namespace
}  // namespace zeroplan::models
