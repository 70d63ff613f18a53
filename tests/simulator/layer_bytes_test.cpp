// Bytes per token that one more layer keeps for its backward pass, against what PyTorch 2.11 and transformers 5.17 keep
// (unique storages of the graph of small models: h 512, 8 heads of 64, 2 x 512 tokens; gated families 2 key-value heads
// and 1408 wide, others 2048). bf16 is a pure bf16 model, amp fp32 weights under autocast with their 16-bit copies.
#include <string>

#include <gtest/gtest.h>

#include "simulator/profiles/profile.h"
#include "tests/models/model_testing.h"

namespace zeroplan::simulator {
namespace {

struct Family {
  std::string name;
  std::string config;  ///< without the number of layers, which is under `layers`
  std::string layers;
  double bf16;
  double amp;
  bool eager = false;
};

std::string gated(const std::string& family, const std::string& more) {
  return R"({"model_type": ")" + family +
         R"(", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
            "intermediate_size": 1408, "vocab_size": 1024, "max_position_embeddings": 2048)" +
         more + ", ";
}

std::string plain(const std::string& family, const std::string& more) {
  return R"({"model_type": ")" + family +
         R"(", "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048, "vocab_size": 1024,
            "max_position_embeddings": 2048)" +
         more + ", ";
}

std::vector<Family> families() {
  const std::string layers = "num_hidden_layers";
  const std::string gpt2 =
      R"({"model_type": "gpt2", "n_embd": 512, "n_head": 8, "vocab_size": 1024, "n_positions": 1024, )";
  const std::string no_dropout = R"("attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0, )";
  return {
      {"llama", gated("llama", ""), layers, 22056, 32680},
      {"qwen2", gated("qwen2", ""), layers, 22056, 32680},
      {"llama with heads of their own", gated("llama", R"(, "num_key_value_heads": 8)"), layers, 23592, 34984},
      {"llama eager", gated("llama", ""), layers, 48136, 58760, true},
      {"qwen3", gated("qwen3", ""), layers, 25936, 36560},
      {"phi3", gated("phi3", R"(, "pad_token_id": 0)"), layers, 24360, 31912},
      {"gemma", gated("gemma", ""), layers, 24108, 32684},
      {"gemma2", gated("gemma2", ""), layers, 32312, 40888},
      {"olmo2", gated("olmo2", ""), layers, 29232, 37808},
      {"mixtral", gated("mixtral", R"(, "num_local_experts": 4, "num_experts_per_tok": 2)"), layers, 37518, 69522},
      {"gpt2", gpt2 + no_dropout, "n_layer", 28720, 49200},
      {"gpt2 with dropout", gpt2 + R"("attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1, )", "n_layer", 29744,
       50224},
      {"gpt2 eager", gpt2 + no_dropout, "n_layer", 36880, 73744, true},
      {"gpt_neox", plain("gpt_neox", ""), layers, 18480, 25648},
      {"starcoder2",
       R"({"model_type": "starcoder2", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
           "intermediate_size": 1408, "vocab_size": 1024, "residual_dropout": 0, "embedding_dropout": 0, )",
       layers, 12336, 20528},
      {"opt",
       R"({"model_type": "opt", "hidden_size": 512, "word_embed_proj_dim": 512, "num_attention_heads": 8, "ffn_dim": 2048, "vocab_size": 1024,
           "max_position_embeddings": 2048, "dropout": 0, "activation_function": "relu", )",
       layers, 12336, 22576},
      {"bert", plain("bert", R"(, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0)"), layers, 16432, 26672},
  };
}

double kept(const Family& family, const std::string& count, planner::Precision precision) {
  std::string config = family.config;
  config += "\"" + family.layers + "\": " + count + "}";
  const models::Model model = models::model_of(config);
  planner::TrainingSpec spec;
  spec.framework = planner::Framework::kPytorch;
  spec.precision = precision;
  spec.seq = 512;
  spec.attention = family.eager ? planner::AttentionKind::kEager : planner::AttentionKind::kSdpa;
  planner::Strategy strategy;
  strategy.stage = 0;
  strategy.micro_batch = 2;
  AllocatorOptions exact;
  exact.expandable_segments = true;  // blocks are split to 512 bytes: no remainders of large blocks
  const PeakPrediction p = predict_peak({model, trained_parameters(model, spec), spec, strategy, nullptr, exact});
  return static_cast<double>(p.phases[static_cast<std::size_t>(Phase::kForward)]->end) -
         static_cast<double>(p.phases[static_cast<std::size_t>(Phase::kZeroGrad)]->end);
}

TEST(LayerBytes, AreWhatAutogradKeeps) {
  constexpr double kTokens = 1024;
  constexpr double kRounding = 0.004;  // 512 bytes for each tensor, the smallest of which have a few bytes
  for (const Family& family : families()) {
    const double bf16 =
        (kept(family, "6", planner::Precision::kBf16) - kept(family, "2", planner::Precision::kBf16)) / 4 / kTokens;
    EXPECT_NEAR(bf16, family.bf16, kRounding * family.bf16) << family.name << " bf16";
    const double amp =
        (kept(family, "6", planner::Precision::kAmp) - kept(family, "2", planner::Precision::kAmp)) / 4 / kTokens;
    EXPECT_NEAR(amp, family.amp, kRounding * family.amp) << family.name << " amp";
  }
}

}  // namespace
}  // namespace zeroplan::simulator
