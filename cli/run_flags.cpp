#include "cli/run_flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/file_io.h"
#include "models/core/text.h"
#include "planner/deepspeed/decisions.h"

namespace zeroplan::cli {
namespace {

using namespace planner;  // NOLINT(google-build-using-namespace): this file is about the planner's enumerations

constexpr std::uint64_t kLongestDefaultSequence = 2048;
constexpr Bytes kMostConfigText(std::uint64_t{1} << 20);

std::vector<std::uint64_t> parse_stages(const std::string& text) {
  if (text == "all") return {0, 1, 2, 3};
  std::vector<std::uint64_t> stages;
  for (const std::string& part : split(text, ',')) {
    const std::uint64_t stage = parse_count(part, "--stage");
    if (stage > 3) {
      throw Error(ErrorCode::kUsage, fmt::format("--stage {}: expected 0, 1, 2, 3, a list of them, or all", text))
          .at({.key = "--stage", .value = text});
    }
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
  }
  if (stages.empty()) throw Error(ErrorCode::kUsage, "--stage: expected 0, 1, 2, 3, a list of them, or all");
  return stages;
}

bool parse_bool(const std::string& text, const std::string& flag) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw Error(ErrorCode::kUsage, fmt::format("{} {}: expected true or false", flag, text))
      .at({.key = flag, .value = text});
}

std::uint64_t positive(std::uint64_t n, const std::string& flag) {
  if (n == 0)
    throw Error(ErrorCode::kUsage, fmt::format("{} 0: expected at least 1", flag)).at({.key = flag, .value = "0"});
  return n;
}

Machine with_budgets(Machine machine, const RunFlags& flags) {
  if (const auto v = flags.given("--budget")) machine.device_bytes = parse_size(*v, "--budget");
  if (const auto v = flags.given("--host-budget")) machine.host_bytes = parse_size(*v, "--host-budget");
  if (const auto v = flags.given("--disk-budget")) machine.disk_bytes = parse_size(*v, "--disk-budget");
  return machine;
}

/// micro-batch x accumulation x ranks = global batch: fixes the one that is not given, or says which do not agree.
void apply_global_batch(RunRequest& request) {
  if (!request.training.global_batch) return;
  const std::uint64_t global = positive(*request.training.global_batch, "--global-batch");
  const std::uint64_t ranks = request.training.gpus;
  FixedDecisions& fixed = request.fixed;
  const auto disagree = [&](std::uint64_t product) {
    return Error(ErrorCode::kUsage, fmt::format("--global-batch {}: expected a multiple of {}", global, product))
        .at({.key = "--global-batch", .value = fmt::format("{}", global)})
        .hint("micro-batch x accumulation x gpus must give the global batch");
  };
  if (global % ranks != 0) throw disagree(ranks);
  const std::uint64_t per_rank = global / ranks;
  if (fixed.micro_batch && fixed.accumulation) {
    if (*fixed.micro_batch * *fixed.accumulation != per_rank)
      throw disagree(*fixed.micro_batch * *fixed.accumulation * ranks);
  } else if (fixed.micro_batch) {
    if (per_rank % *fixed.micro_batch != 0) throw disagree(*fixed.micro_batch * ranks);
    fixed.accumulation = per_rank / *fixed.micro_batch;
  } else if (fixed.accumulation) {
    if (per_rank % *fixed.accumulation != 0) throw disagree(*fixed.accumulation * ranks);
    fixed.micro_batch = per_rank / *fixed.accumulation;
  }
}

}  // namespace

std::vector<std::uint64_t> stages_of(const RunRequest& request) {
  const std::vector<std::uint64_t> all = {0, 1, 2, 3};
  const Framework framework = request.training.framework;
  if (framework == Framework::kNative || framework == Framework::kDeepspeed)
    return request.stages.empty() ? all : request.stages;
  const std::uint64_t only = framework == Framework::kFsdp2 ? 3 : 0;
  for (const std::uint64_t stage : request.stages) {
    if (stage == only || request.stages == all) continue;
    throw Error(ErrorCode::kUsage, fmt::format("--stage {}: --framework {} knows stage {} alone", stage,
                                               planner::name_of(framework), only))
        .at({.key = "--stage", .value = fmt::format("{}", stage)})
        .hint(only == 3 ? "fsdp2 shards parameters, gradients and optimizer states; --reshard false keeps gathered "
                          "parameters until the backward pass"
                        : "native and deepspeed know all stages");
  }
  return {only};
}

void RunFlags::add(CLI::App& app, const std::string& flag, const std::string& help) {
  app.add_option_function<std::string>(
      flag, [this, flag](const std::string& text) { values_[flag] = text; }, help);
}

void RunFlags::add_to(CLI::App& app, bool own_framework) {
  if (own_framework) add(app, "--framework", "native, pytorch, ddp, fsdp2 or deepspeed (native)");
  add(app, "--gpus", "ranks in all (the machine's, else 1)");
  add(app, "--nodes", "nodes over which they are spread evenly (the machine's, else 1)");
  add(app, "--micro-batch", "sequences per rank and pass");
  add(app, "--accumulation", "passes per update");
  add(app, "--global-batch", "micro-batch x accumulation x gpus; fixes the one that is not given");
  add(app, "--seq", "tokens per sequence (the model's positions, at most 2048)");
  add(app, "--precision", "fp32, amp, bf16, bf16-mixed or fp16-mixed (bf16-mixed; pytorch and ddp: amp)");
  add(app, "--optimizer", "adamw, adam, sgd, lion, adagrad, lamb, adafactor or adamw-8bit (adamw)");
  add(app, "--optimizer-impl", "fused, foreach or loop (fused): temporaries of PyTorch's update");
  add(app, "--attention", "sdpa or eager (sdpa)");
  add(app, "--dropout", "0");
  add(app, "--comm", "loopback, mpi or nccl (loopback)");
  add(app, "--backend", "cpu or cuda (cuda if the machine states a GPU's rates)");
  add(app, "--recompute", "none, selective or full");
  add(app, "--recompute-blocks", "how many blocks, from the first, are recomputed");
  add(app, "--stage", "ZeRO stage: 0, 1, 2, 3, a list, or all");
  add(app, "--reshard", "true or false (true): fsdp2 frees gathered weights after the forward pass");
  add(app, "--reduce-dtype", "fp32 or bf16 (fp32): type in which gradients are reduced");
  add(app, "--gradient-dtype", "weights or fp32 (weights): native, type in which gradients are kept and accumulated");
  add(app, "--offload-optimizer", "none, cpu or nvme, with a fraction as cpu:0.5");
  add(app, "--offload-param", "none, cpu or nvme");
  add(app, "--offload-gradients", "none, cpu or nvme (as the optimizer)");
  add(app, "--offload-activations", "none, cpu or nvme");
  add(app, "--head-chunks", "pieces in which head and loss are computed");
  add(app, "--method", "full, lora or qlora (full)");
  add(app, "--lora-rank", "rank of the adapters (8)");
  add(app, "--lora-targets", "all-linear or a list of modules (all-linear)");
  add(app, "--quant", "nf4, nf4-dq or int8 (nf4): qlora's frozen layers");
  add(app, "--freeze", "names or globs of parameters that get no gradient");
  add(app, "--machine", "a preset, a file, local, or items such as gpus=8,gpu=24GiB,host=500GiB");
  add(app, "--budget", "device memory per GPU (the machine's)");
  add(app, "--host-budget", "host memory per node (the machine's)");
  add(app, "--disk-budget", "disk space per node (the machine's)");
  add(app, "--deepspeed", "take the decisions of a ds_config.json; a flag wins over the file");
  add(app, "--reduce-bucket-size", "elements of one gradient reduction at most");
  add(app, "--allgather-bucket-size", "elements of one parameter gather at most");
  add(app, "--prefetch-bucket-size", "elements gathered ahead at most (stage 3)");
  add(app, "--param-persistence-threshold", "parameters of so many elements or fewer stay gathered (stage 3)");
  add(app, "--max-live-parameters", "gathered elements at any time at most (stage 3)");
  add(app, "--max-reuse-distance", "keep gathered what is used again within so many elements (stage 3)");
  add(app, "--sub-group-size", "elements of one piece of the update at most");
}

std::optional<std::string> RunFlags::given(const std::string& flag) const {
  const auto it = values_.find(flag);
  if (it == values_.end()) return std::nullopt;
  return it->second;
}

std::optional<std::uint64_t> RunFlags::count(const std::string& flag) const {
  const auto text = given(flag);
  if (!text) return std::nullopt;
  return parse_count(*text, flag);
}

RunRequest RunFlags::resolve(const models::Model* model) const {
  RunRequest request;
  TrainingSpec& t = request.training;
  const auto named = [this]<class E>(const std::string& flag, E& value) {
    if (const auto text = given(flag)) value = parse_named<E>(*text, flag);
  };
  named("--framework", t.framework);
  request.framework_given = given("--framework").has_value();
  if (const auto text = given("--machine")) {
    request.machine = with_budgets(parse_machine(*text), *this);
  } else if (given("--budget") || given("--host-budget") || given("--disk-budget")) {
    request.machine = with_budgets(Machine{}, *this);
  }
  if (request.machine) {
    t.gpus = t.framework == Framework::kPytorch ? 1 : request.machine->gpus;
    t.nodes = t.framework == Framework::kPytorch ? 1 : request.machine->nodes;
    t.backend = request.machine->is_gpu ? BackendKind::kCuda : BackendKind::kCpu;
  }
  t.gpus = count("--gpus").value_or(t.gpus);
  t.nodes = count("--nodes").value_or(t.nodes);
  t.global_batch = count("--global-batch");
  const bool torch = t.framework == Framework::kPytorch || t.framework == Framework::kDdp;
  t.precision = torch ? Precision::kAmp : Precision::kBf16Mixed;
  planner::deepspeed::ConfigDecisions file;
  if (const auto path = given("--deepspeed")) {
    file = planner::deepspeed::read_decisions(read_file(*path, kMostConfigText), *path, t.gpus,
                                              {.micro_batch = count("--micro-batch"),
                                               .accumulation = count("--accumulation"),
                                               .global_batch = t.global_batch});
    request.notes = file.notes;
  }
  t.precision = file.precision.value_or(t.precision);
  t.optimizer = file.optimizer.value_or(t.optimizer);
  t.reduce_dtype = file.reduce_dtype.value_or(t.reduce_dtype);
  if (t.framework == Framework::kNative) t.gradient_dtype = file.gradient_dtype.value_or(t.gradient_dtype);
  named("--precision", t.precision);
  named("--optimizer", t.optimizer);
  named("--optimizer-impl", t.optimizer_impl);
  named("--attention", t.attention);
  named("--comm", t.comm);
  named("--backend", t.backend);
  named("--reduce-dtype", t.reduce_dtype);
  named("--gradient-dtype", t.gradient_dtype);
  named("--method", t.method);
  named("--quant", t.quant);
  if (const auto text = given("--reshard")) t.reshard = parse_bool(*text, "--reshard");
  if (const auto text = given("--dropout"); text && parse_number(*text, "--dropout") != 0) {
    throw Error(ErrorCode::kUsage, fmt::format("--dropout {}: expected 0", *text))
        .at({.key = "--dropout", .value = *text});
  }
  t.lora_rank = count("--lora-rank").value_or(t.lora_rank);
  if (const auto text = given("--lora-targets"); text && *text != "all-linear") t.lora_targets = split(*text, ',');
  if (const auto text = given("--freeze")) t.freeze = split(*text, ',');
  const std::uint64_t positions = model != nullptr && model->positions > 0 ? model->positions : kLongestDefaultSequence;
  t.seq = count("--seq").value_or(std::min(positions, kLongestDefaultSequence));
  request.seq_given = given("--seq").has_value();

  request.fixed = file.fixed;
  FixedDecisions& f = request.fixed;
  if (const auto text = given("--stage")) request.stages = parse_stages(*text);
  if (request.stages.empty() && f.stage) request.stages = {*f.stage};
  if (request.stages.size() == 1) f.stage = request.stages.front();
  if (const auto n = count("--micro-batch")) f.micro_batch = positive(*n, "--micro-batch");
  if (const auto n = count("--accumulation")) f.accumulation = positive(*n, "--accumulation");
  if (const auto n = count("--head-chunks")) f.head_chunks = positive(*n, "--head-chunks");
  if (const auto text = given("--recompute")) f.recompute = parse_named<Recompute>(*text, "--recompute");
  if (const auto n = count("--recompute-blocks")) f.recompute_blocks = n;
  if (const auto text = given("--offload-optimizer")) f.offload_optimizer = parse_offload(*text, "--offload-optimizer");
  if (const auto text = given("--offload-param")) f.offload_param = parse_offload(*text, "--offload-param");
  if (const auto text = given("--offload-gradients")) f.offload_gradients = parse_offload(*text, "--offload-gradients");
  if (const auto text = given("--offload-activations"))
    f.offload_activations = parse_offload(*text, "--offload-activations");
  if (const auto n = count("--reduce-bucket-size")) f.reduce_bucket_size = n;
  if (const auto n = count("--allgather-bucket-size")) f.allgather_bucket_size = n;
  if (const auto n = count("--prefetch-bucket-size")) f.prefetch_bucket_size = n;
  if (const auto n = count("--param-persistence-threshold")) f.param_persistence_threshold = n;
  if (const auto n = count("--max-live-parameters")) f.max_live_parameters = n;
  if (const auto n = count("--max-reuse-distance")) f.max_reuse_distance = n;
  if (const auto n = count("--sub-group-size")) f.sub_group_size = n;
  t.validate();
  apply_global_batch(request);
  return request;
}

}  // namespace zeroplan::cli
