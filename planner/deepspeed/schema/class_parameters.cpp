#include "planner/deepspeed/schema/class_parameters.h"

#include <algorithm>
#include <array>

namespace zeroplan::planner::deepspeed {
namespace {

/// Union of FusedAdam, DeepSpeedCPUAdam, torch's Adam (`torch_adam`) and what the engine takes out before.
constexpr std::string_view kAdam =
    "lr|betas|eps|weight_decay|bias_correction|amsgrad|torch_adam|adam_w_mode|adamw_mode|set_grad_none|"
    "fp32_optimizer_states|foreach|fused|maximize|capturable|differentiable";
constexpr std::string_view kLamb =
    "lr|bias_correction|betas|eps|eps_inside_sqrt|weight_decay|max_coeff|min_coeff|amsgrad";
constexpr std::string_view kOneBitLamb =
    "lr|freeze_step|bias_correction|betas|eps|eps_inside_sqrt|weight_decay|max_coeff|min_coeff|amsgrad|cuda_aware|"
    "comm_backend_name|coeff_beta|factor_max|factor_min|factor_threshold";
constexpr std::string_view kTorchAdam =
    "lr|betas|eps|weight_decay|amsgrad|foreach|maximize|capturable|differentiable|fused";

constexpr std::array kOptimizers = {
    ClassSpec{"Adam", kAdam},
    ClassSpec{"AdamW", kAdam},
    ClassSpec{"Adagrad",
              "lr|eps|weight_decay|amsgrad|fp32_optimizer_states|lr_decay|initial_accumulator_value|foreach|maximize|"
              "differentiable|fused"},
    ClassSpec{"Lamb", kLamb},
    ClassSpec{
        "OneBitAdam",
        "lr|freeze_step|bias_correction|betas|eps|eps_inside_sqrt|weight_decay|amsgrad|cuda_aware|comm_backend_name"},
    ClassSpec{"OneBitLamb", kOneBitLamb},
    ClassSpec{"ZeroOneAdam",
              "lr|bias_correction|betas|eps|eps_inside_sqrt|weight_decay|var_freeze_step|var_update_scaler|"
              "local_step_scaler|local_step_clipper|amsgrad|cuda_aware|comm_backend_name"},
    ClassSpec{"Lion", "lr|betas|weight_decay|set_grad_none|fp32_optimizer_states"},
    ClassSpec{"Muon",
              "lr|momentum|weight_decay|muon_lr|ns_method|betas|eps|adam_lr|adam_w_mode|torch_adam|"
              "fp32_optimizer_states"},
    ClassSpec{"MuAdam", kTorchAdam},
    ClassSpec{"MuAdamW", kTorchAdam},
    ClassSpec{"MuSGD", "lr|momentum|dampening|weight_decay|nesterov|maximize|foreach|differentiable|fused"},
    ClassSpec{"Adadelta", "lr|rho|eps|weight_decay|foreach|capturable|maximize|differentiable", "", true},
    ClassSpec{"Adafactor", "lr|beta2_decay|eps|d|weight_decay|foreach|maximize", "", true},
    ClassSpec{"Adamax", "lr|betas|eps|weight_decay|foreach|maximize|differentiable|capturable", "", true},
    ClassSpec{"ASGD", "lr|lambd|alpha|t0|weight_decay|foreach|maximize|differentiable|capturable", "", true},
    ClassSpec{"LBFGS", "lr|max_iter|max_eval|tolerance_grad|tolerance_change|history_size|line_search_fn", "", true},
    ClassSpec{
        "NAdam",
        "lr|betas|eps|weight_decay|momentum_decay|decoupled_weight_decay|foreach|maximize|capturable|differentiable",
        "", true},
    ClassSpec{"RAdam", "lr|betas|eps|weight_decay|decoupled_weight_decay|foreach|maximize|capturable|differentiable",
              "", true},
    ClassSpec{"RMSprop", "lr|alpha|eps|weight_decay|momentum|centered|capturable|foreach|maximize|differentiable", "",
              true},
    ClassSpec{"Rprop", "lr|etas|step_sizes|capturable|foreach|maximize|differentiable", "", true},
    ClassSpec{"SGD", "lr|momentum|dampening|weight_decay|nesterov|maximize|foreach|differentiable|fused", "", true},
    ClassSpec{"SparseAdam", "lr|betas|eps|maximize", "", true},
};

constexpr std::array kSchedulers = {
    ClassSpec{"WarmupLR", "warmup_min_lr|warmup_max_lr|warmup_num_steps|warmup_type|last_batch_iteration"},
    ClassSpec{"WarmupDecayLR",
              "total_num_steps|warmup_min_lr|warmup_max_lr|warmup_num_steps|warmup_type|last_batch_iteration",
              "total_num_steps"},
    ClassSpec{"WarmupCosineLR",
              "total_num_steps|warmup_min_ratio|warmup_num_steps|cos_min_ratio|warmup_type|last_batch_iteration",
              "total_num_steps"},
    ClassSpec{"LRRangeTest",
              "lr_range_test_min_lr|lr_range_test_step_size|lr_range_test_step_rate|lr_range_test_staircase|"
              "last_batch_iteration"},
    ClassSpec{"OneCycle",
              "cycle_min_lr|cycle_max_lr|decay_lr_rate|cycle_first_step_size|cycle_second_step_size|"
              "cycle_first_stair_count|cycle_second_stair_count|decay_step_size|cycle_momentum|cycle_min_mom|"
              "cycle_max_mom|decay_mom_rate|last_batch_iteration",
              "cycle_min_lr|cycle_max_lr"},
    ClassSpec{"StepLR", "step_size|gamma|last_epoch", "step_size", true},
    ClassSpec{"MultiStepLR", "milestones|gamma|last_epoch", "milestones", true},
    ClassSpec{"ConstantLR", "factor|total_iters|last_epoch", "", true},
    ClassSpec{"LinearLR", "start_factor|end_factor|total_iters|last_epoch", "", true},
    ClassSpec{"ExponentialLR", "gamma|last_epoch", "gamma", true},
    ClassSpec{"PolynomialLR", "total_iters|power|last_epoch", "", true},
    ClassSpec{"CosineAnnealingLR", "T_max|eta_min|last_epoch", "T_max", true},
    ClassSpec{"CyclicLR",
              "base_lr|max_lr|step_size_up|step_size_down|mode|gamma|scale_fn|scale_mode|cycle_momentum|base_momentum|"
              "max_momentum|last_epoch",
              "base_lr|max_lr", true},
    ClassSpec{"OneCycleLR",
              "max_lr|total_steps|epochs|steps_per_epoch|pct_start|anneal_strategy|cycle_momentum|base_momentum|"
              "max_momentum|div_factor|final_div_factor|three_phase|last_epoch",
              "max_lr", true},
    ClassSpec{"CosineAnnealingWarmRestarts", "T_0|T_mult|eta_min|last_epoch", "T_0", true},
    ClassSpec{"ReduceLROnPlateau", "mode|factor|patience|threshold|threshold_mode|cooldown|min_lr|eps", "", true},
    ClassSpec{"LambdaLR", "lr_lambda|last_epoch", "", true, true},
    ClassSpec{"MultiplicativeLR", "lr_lambda|last_epoch", "", true, true},
    ClassSpec{"SequentialLR", "schedulers|milestones|last_epoch", "", true, true},
    ClassSpec{"ChainedScheduler", "schedulers", "", true, true},
};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::span<const ClassSpec> optimizer_classes() {
  return kOptimizers;
}

std::span<const ClassSpec> scheduler_classes() {
  return kSchedulers;
}

const ClassSpec* find_optimizer_class(std::string_view type) {
  const auto it = std::find_if(kOptimizers.begin(), kOptimizers.end(), [type](const ClassSpec& spec) {
    return spec.is_torch ? spec.name == type : same_in_any_case(spec.name, type);
  });
  return it == kOptimizers.end() ? nullptr : &*it;
}

const ClassSpec* find_scheduler_class(std::string_view type) {
  const auto it =
      std::find_if(kSchedulers.begin(), kSchedulers.end(), [type](const ClassSpec& spec) { return spec.name == type; });
  return it == kSchedulers.end() ? nullptr : &*it;
}

std::vector<std::string_view> names_of(std::string_view joined) {
  std::vector<std::string_view> names;
  while (!joined.empty()) {
    const std::size_t bar = joined.find('|');
    names.push_back(joined.substr(0, bar));
    if (bar == std::string_view::npos) break;
    joined.remove_prefix(bar + 1);
  }
  return names;
}

}  // namespace zeroplan::planner::deepspeed
