// Small models and plans for tests: big enough that every rule of the schedule has something to do.
#pragma once

#include "models/load_model.h"
#include "planner/choice.h"
#include "planner/plan_maker.h"

namespace zeroplan::testing {

/// What differs from a plain run of two ranks at stage 0.
struct PlanSettings {
  std::uint64_t ranks = 2;
  std::uint64_t stage = 0;
  std::uint64_t accumulation = 1;
  std::uint64_t micro_batch = 2;
  std::uint64_t seq = 16;
  planner::Recompute recompute = planner::Recompute::kNone;
  planner::Precision precision = planner::Precision::kFp32;
  planner::OptimizerKind optimizer = planner::OptimizerKind::kAdamW;
  planner::BackendKind backend = planner::BackendKind::kCpu;
  planner::FixedDecisions fixed;
  planner::GradientType gradients = planner::GradientType::kWeights;
};

inline Json llama_config() {
  return Json{{"model_type", "llama"},
              {"architectures", {"LlamaForCausalLM"}},
              {"hidden_size", 64},
              {"intermediate_size", 96},
              {"num_hidden_layers", 3},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"vocab_size", 160},
              {"max_position_embeddings", 64},
              {"tie_word_embeddings", false},
              {"rms_norm_eps", 1e-5}};
}

inline Json qwen2_tied_config() {
  Json config = llama_config();
  config["model_type"] = "qwen2";
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["tie_word_embeddings"] = true;
  return config;
}

inline Json qwen3_config() {
  Json config = llama_config();
  config["model_type"] = "qwen3";
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["head_dim"] = 24;
  return config;
}

inline Json gpt2_config() {
  return Json{{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
              {"n_embd", 48},         {"n_layer", 3},
              {"n_head", 3},          {"n_positions", 64},
              {"vocab_size", 128},    {"attn_pdrop", 0},
              {"embd_pdrop", 0},      {"resid_pdrop", 0}};
}

inline models::Model tiny_model(const Json& config) {
  return models::build_model(config, "tiny");
}

/// The machine of tests: no limits, rates of the preset.
inline planner::Machine test_machine(std::uint64_t ranks) {
  planner::Machine machine = planner::parse_machine("cpu");
  machine.gpus = ranks;
  return machine;
}

inline planner::Plan make_test_plan(const Json& config, const PlanSettings& settings) {
  const models::Model model = tiny_model(config);
  planner::TrainingSpec training;
  training.gpus = settings.ranks;
  training.seq = settings.seq;
  training.precision = settings.precision;
  training.optimizer = settings.optimizer;
  training.gradient_dtype = settings.gradients;
  training.backend = settings.backend;
  planner::Strategy strategy = settings.fixed.over_defaults();
  strategy.stage = settings.stage;
  strategy.accumulation = settings.accumulation;
  strategy.micro_batch = settings.micro_batch;
  strategy.recompute = settings.recompute;
  planner::FixedDecisions fixed = settings.fixed;
  if (!fixed.param_persistence_threshold) fixed.param_persistence_threshold = 256;
  strategy.param_persistence_threshold = *fixed.param_persistence_threshold;
  strategy = planner::with_model_sizes(model, training, fixed, strategy);
  return planner::make_plan(model, test_machine(settings.ranks), training, strategy);
}

}  // namespace zeroplan::testing
