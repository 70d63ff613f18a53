"""Random ds_config documents, trainer arguments and hostfiles; the same seed gives the same inputs."""
import copy
import random


def maybe(r, chance):
    return r.random() < chance


def zero_section(r, filler):
    zero = {"stage": r.choice([0, 1, 2, 2, 3, 3])}
    if maybe(r, 0.05):
        zero["stage"] = r.choice(["3", 2.0, 4, -1, "two", True])
    numbers = [5e8, 2e8, 1000000, "500000", 0, -1, 4194304.0, 3774873.6, "5e8", 1e9]
    for key in ("reduce_bucket_size", "allgather_bucket_size", "sub_group_size", "stage3_prefetch_bucket_size",
                "prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_max_live_parameters",
                "max_reuse_distance"):
        if maybe(r, 0.25):
            zero[key] = r.choice(numbers[:4] if maybe(r, 0.8) else numbers)
    if filler and maybe(r, 0.5):
        for key in ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"):
            if maybe(r, 0.6):
                zero[key] = "auto"
    flags = [True, False, "true", "no", 1, 0, "maybe", 2, None]
    for key in ("overlap_comm", "contiguous_gradients", "reduce_scatter", "round_robin_gradients",
                "stage3_gather_16bit_weights_on_model_save", "ignore_unused_parameters"):
        if maybe(r, 0.2):
            zero[key] = r.choice(flags[:2] if maybe(r, 0.85) else flags)
    if maybe(r, 0.3):
        zero["offload_optimizer"] = {"device": r.choice(["cpu", "none", "nvme", "cpu", "gpu" if maybe(r, 0.2) else "cpu"])}
        if maybe(r, 0.4):
            zero["offload_optimizer"]["pin_memory"] = r.choice(flags[:4])
        if maybe(r, 0.3):
            zero["offload_optimizer"]["nvme_path"] = "scratch/disk"
        if maybe(r, 0.15):
            zero["offload_optimizer"]["ratio"] = r.choice([0.5, 1.0, 1.5, -0.1])
        if maybe(r, 0.05):
            zero["offload_optimizer"]["buffers"] = 4
    if maybe(r, 0.2):
        zero["offload_param"] = {"device": r.choice(["cpu", "none", "nvme"]), "nvme_path": "scratch/disk"}
    if maybe(r, 0.06):
        zero[r.choice(["cpu_offload", "cpu_offload_param", "cpu_offload_params", "stage3_gather_fp16_weights_on_model_save",
                       "cpu_offload_use_pin_memory"])] = r.choice([True, False])
    if maybe(r, 0.06):
        zero[r.choice(["overlap_com", "aio", "reduce_bucketsize", "stage_3"])] = r.choice([True, {}, 5])
    return zero


SCHEDULERS = {
    "WarmupLR": {"warmup_num_steps": 100, "warmup_max_lr": 5e-5, "warmup_min_lr": 0},
    "WarmupDecayLR": {"total_num_steps": 1000, "warmup_num_steps": 100, "warmup_max_lr": 5e-5, "warmup_min_lr": 0},
    "WarmupCosineLR": {"total_num_steps": 1000, "warmup_num_steps": 100, "cos_min_ratio": 0.01},
    "OneCycle": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3, "cycle_first_step_size": 100},
    "LRRangeTest": {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 200},
    "StepLR": {"step_size": 10},
    "linear": {},
}


def scheduler(r, filler):
    kind = "WarmupDecayLR" if maybe(r, 0.6) else r.choice(list(SCHEDULERS))
    params = {}
    for key, value in SCHEDULERS[kind].items():
        fillable = filler and key.startswith(("warmup", "total"))
        params[key] = "auto" if fillable and maybe(r, 0.6) else value
        if maybe(r, 0.03):
            params[key] = r.choice([0, 500.0, "100", 1, -5])
        if maybe(r, 0.03):
            del params[key]
    if maybe(r, 0.05):
        params[r.choice(["warmup_steps", "warmup_type", "last_batch_iteration"])] = r.choice(["linear", -1])
    return {"type": kind, "params": params}


def config(r, filler):
    """`filler`: whether somebody fills auto values."""
    c = {}
    sizes = [1, 2, 4, 8, 16, 32, 3, 7] + (["auto"] * 8 if filler else [])
    for key, chance in (("train_batch_size", 0.6), ("train_micro_batch_size_per_gpu", 0.6),
                        ("gradient_accumulation_steps", 0.5)):
        if maybe(r, chance):
            c[key] = r.choice(sizes)
            if key == "train_batch_size" and c[key] != "auto":
                c[key] *= r.choice([1, 4, 8])
            if maybe(r, 0.04):
                c[key] = r.choice(["8", 0, -2, 2.5, None])
    if maybe(r, 0.4):
        c["gradient_clipping"] = r.choice([1.0, 0.5, 1] + (["auto"] * 3 if filler else []))
    if maybe(r, 0.9) or filler:
        c["zero_optimization"] = zero_section(r, filler)
    values = [True, False, False, "true", "false", 1] if maybe(r, 0.2) else [True, False, False]
    half = values + (["auto"] * 4 if filler else [])
    if maybe(r, 0.5):
        c["fp16"] = {"enabled": r.choice(half)}
        for key, choices in (("loss_scale", [0, 128.0, -1, "x"]), ("initial_scale_power", [16, 32, "8"]),
                             ("loss_scale_window", [1000, 0, 500.5]), ("hysteresis", [2, 1]),
                             ("min_loss_scale", [1, 0.5, 0]), ("loss_scal", [1])):
            if maybe(r, 0.25 if key != "loss_scal" else 0.03):
                c["fp16"][key] = choices[0] if maybe(r, 0.8) else r.choice(choices)
    if maybe(r, 0.4):
        c[r.choice(["bf16", "bf16", "bf16", "bfloat16"])] = {"enabled": r.choice(half)}
    if maybe(r, 0.5):
        c["optimizer"] = {"type": r.choice(["AdamW", "Adam"] * 3 + ["adamw", "Lion", "Adagrad", "SGD", "sgd", "Adamw8bit"]), "params": {}}
        for key, value in (("lr", 5e-5), ("betas", [0.9, 0.999]), ("eps", 1e-8), ("weight_decay", 0.0)):
            if maybe(r, 0.7):
                c["optimizer"]["params"][key] = r.choice([value] + (["auto"] * 2 if filler else []))
                if filler and maybe(r, 0.1):
                    c["optimizer"]["params"][key] = 0.25
        if c["optimizer"]["type"] == "Lion" and maybe(r, 0.7):
            c["optimizer"]["params"].pop("eps", None)
        if maybe(r, 0.08):
            c["optimizer"]["params"][r.choice(["adam_w_mode", "torch_adam", "momentum", "beta1", "max_grad_norm"])] = 0
    if maybe(r, 0.4):
        c["scheduler"] = scheduler(r, filler)
    if maybe(r, 0.15):
        c["aio"] = {"block_size": 1048576, "queue_depth": r.choice([8, 32])}
    if maybe(r, 0.1):
        c["checkpoint"] = {"tag_validation": r.choice(["Warn", "fail", "IGNORE", "Never"])}
    if maybe(r, 0.1):
        c["communication_data_type"] = r.choice(["fp16", "BF16", "fp32", "bfp16"])
    if maybe(r, 0.06):
        c["gradient_allreduce_op"] = r.choice(["mean", "sum", "max"])
    if maybe(r, 0.1):
        c["flops_profiler"] = {"enabled": False}
    if maybe(r, 0.08):
        c["tensorboard"] = {"enabled": False, r.choice(["output_path", "job_name", "path"]): "runs"}
    return c


def arguments(r):
    a = {"per_device_train_batch_size": r.choice([1, 2, 4, 8]), "gradient_accumulation_steps": r.choice([1, 2, 4]),
         "learning_rate": 5e-5, "max_steps": 1000, "warmup_steps": r.choice([100, 100, 10, 0.05])}
    precision = r.choice(["bf16", "fp16", "none"])
    if precision != "none":
        a[precision] = True
    if maybe(r, 0.2):
        a["weight_decay"] = 0.1
    return a


def hostfile(r):
    names = ["worker-0", "worker-1", "node2", "gpuuser@192.0.2.10", "10.0.0.7"]
    r.shuffle(names)
    lines = []
    for name in names[:r.randint(1, 4)]:
        line = f"{name} slots={r.randint(1, 8)}"
        if maybe(r, 0.04):
            line = r.choice([f"{name} lots=2", f"{name}", f"{name} slots=", f"{name} slots=4x", f"{name} slots=0", f"{name}slots=2"])
        lines.append(line)
    if maybe(r, 0.3):
        lines.insert(0, r.choice(["# hosts", ""]))
    if maybe(r, 0.04):
        lines.append(lines[-1])
    known = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    parts = []
    for name in r.sample(known, r.randint(1, len(known))) if known else []:
        if "@" in name:
            continue
        slots = ",".join(str(r.randint(0, 8 if maybe(r, 0.15) else 2)) for _ in range(r.randint(1, 3)))
        parts.append(name if maybe(r, 0.4) else f"{name}:{slots}")
    if maybe(r, 0.05):
        parts.append("nowhere")
    kind = r.choice(["none", "include", "exclude"]) if parts else "none"
    return "\n".join(lines) + "\n", kind, "@".join(parts)


def mend(r, c, args, world, reader):
    """Makes the batch sizes consistent and, for the trainer, the values those of its arguments: what is left to find is
    in the other keys."""
    micro, steps = args["per_device_train_batch_size"], args["gradient_accumulation_steps"]
    if reader == "deepspeed":
        micro, steps = r.choice([1, 2, 3, 8]), r.choice([1, 2, 5])
    whole = {"train_batch_size": micro * steps * world, "train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps}
    for key, value in whole.items():
        if c.get(key) != "auto" and key in c:
            c[key] = value
    if reader != "accelerate" and "gradient_accumulation_steps" not in c and "train_micro_batch_size_per_gpu" not in c:
        c["gradient_accumulation_steps"] = steps
    if "train_batch_size" not in c and "train_micro_batch_size_per_gpu" not in c or c.get("train_batch_size") == "auto":
        c["train_micro_batch_size_per_gpu"] = micro
    if reader == "accelerate" and "gradient_accumulation_steps" not in c:
        c["gradient_accumulation_steps"] = steps
    c.setdefault("zero_optimization", {"stage": 2})
    precision = {"fp16": bool(args.get("fp16")), "bf16": bool(args.get("bf16"))}
    if reader == "deepspeed":
        precision["fp16"] = not precision["bf16"]
    c.pop("bfloat16", None)
    for key, on in precision.items():
        if key in c and c[key]["enabled"] != "auto":
            c[key]["enabled"] = on
    if reader == "hf-trainer":
        if c.get("gradient_clipping") != "auto" and "gradient_clipping" in c:
            c["gradient_clipping"] = 1.0
        for section, values in (("optimizer", {"lr": 5e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": args.get("weight_decay", 0.0)}),
                                ("scheduler", {"warmup_max_lr": 5e-5, "total_num_steps": 1000})):
            params = c.get(section, {}).get("params", {})
            for key, value in values.items():
                if key in params and params[key] != "auto":
                    params[key] = value
            if section == "scheduler" and "warmup_num_steps" in params:
                params["warmup_num_steps"] = "auto"


def configs(count, seed=5):
    """Two of three are mended, so that the libraries accept about half of all."""
    r = random.Random(seed)
    for index in range(count):
        reader = ("deepspeed", "hf-trainer", "accelerate")[index % 3]
        c = config(r, reader != "deepspeed")
        args, world = arguments(r), r.choice([1, 2, 4, 8])
        if index // 3 % 3 != 0:
            mend(r, c, args, world, reader)
        yield {"reader": reader, "config": copy.deepcopy(c), "args": args, "world": world}
