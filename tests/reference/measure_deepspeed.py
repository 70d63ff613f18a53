#!/usr/bin/env python3
"""Measures the memory of one rank under DeepSpeed's ZeRO on a GPU: one JSON object a row, for the profile `deepspeed` of the simulator.

Every row is a process of its own: a model of a Hugging Face config with random weights, bf16, PyTorch's AdamW (DeepSpeed's own operators
are not built), three updates. World sizes above 1 run on PyTorch's fake process group: buffers are those of a real rank, no data moves.
Recorded in bytes, as PyTorch's caching allocator counts them: allocated after start-up, the peak within forward, backward and step of
the third update and what is left after each; the highest of all; reserved; and what was alive at the highest peak, by where it was
allocated. Needs torch, transformers and deepspeed.

    python3 tests/reference/measure_deepspeed.py --configs tests/reference/configs -o deepspeed_h200.jsonl
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODELS = {"gpt2": (4, 1024), "llama-3.2-1b": (2, 1024), "qwen2.5-1.5b": (2, 1024)}
LARGE, SMALL = 500_000_000, 50_000_000


def rows() -> list[dict]:
    """The grid: each stage without and with offload; overlap with both bucket sizes; recomputation; eight ranks."""
    grid = []
    for model, (micro_batch, seq) in MODELS.items():
        def add(stage: int, offload: str = "none", overlap: bool = True, bucket: int = LARGE, recompute: bool = False, world: int = 1):
            grid.append({"model": model, "stage": stage, "offload_optimizer": offload, "overlap": overlap, "bucket": bucket,
                         "recompute": recompute, "world": world, "mb": micro_batch, "seq": seq})
        for stage in (1, 2, 3):
            for offload in ("none", "cpu"):
                add(stage, offload)
                add(stage, offload, overlap=False, bucket=SMALL)
            add(stage, recompute=True, bucket=SMALL)
            add(stage, world=8)
            add(stage, world=8, overlap=False, bucket=SMALL)
        add(2, bucket=SMALL)
        add(2, overlap=False)
    return grid


def deepspeed_config(row: dict) -> dict:
    zero = {"stage": row["stage"], "overlap_comm": row["overlap"], "contiguous_gradients": True, "reduce_bucket_size": row["bucket"],
            "allgather_bucket_size": row["bucket"]}
    if row["stage"] == 3:
        zero.update(stage3_prefetch_bucket_size=50_000_000, stage3_param_persistence_threshold=100_000,
                    stage3_max_live_parameters=1_000_000_000, stage3_max_reuse_distance=1_000_000_000)
    if row["offload_optimizer"] == "cpu":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": False}
    return {"train_micro_batch_size_per_gpu": row["mb"], "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
            "bf16": {"enabled": True}, "zero_optimization": zero, "zero_force_ds_cpu_optimizer": False,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}, "steps_per_print": 1_000_000}


def place_of(frames: list[dict]) -> str:
    """The innermost frame outside of PyTorch, "file:function"."""
    for frame in frames:
        name = frame["filename"]
        if name.endswith(".py") and "/torch/" not in name:
            return f"{'/'.join(Path(name).parts[-2:])}:{frame['line']} {frame['name']}"
    return "PyTorch"


def holders_at_peak(snapshot: dict) -> list[dict]:
    """Replays the allocator's log; what was alive when most was."""
    live, total, highest, at_peak = {}, 0, 0, {}
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            live[event["addr"]] = (event["size"], place_of(event.get("frames", [])))
            total += event["size"]
            if total > highest:
                highest, at_peak = total, dict(live)
        elif event["action"] == "free_completed" and event["addr"] in live:
            total -= live.pop(event["addr"])[0]
    groups = collections.Counter()
    counts = collections.Counter()
    for size, place in at_peak.values():
        groups[place] += size
        counts[place] += 1
    return [{"where": place, "bytes": size, "count": counts[place]} for place, size in groups.most_common(24)]


def measure(row: dict, configs: Path) -> dict:
    import torch
    import torch.distributed as dist
    import deepspeed
    from transformers import AutoConfig, AutoModelForCausalLM

    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(row["world"]), MASTER_ADDR="127.0.0.1", MASTER_PORT=row.pop("port"))
    if row["world"] > 1:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", rank=0, world_size=row["world"], store=FakeStore())
    deepspeed.init_distributed(verbose=False)
    cuda = torch.cuda
    cuda.set_device(0)
    torch.manual_seed(0)
    settings = deepspeed_config(row)
    fields = json.loads((configs / f"{row['model']}.json").read_text())
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    config.use_cache = False
    for key in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=400_000)

    def make():
        return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)

    if row["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=settings):
            model = make()
        count = sum(getattr(p, "ds_numel", p.numel()) for p in model.parameters())
    else:
        model = make()
        count = sum(p.numel() for p in model.parameters())
    if row["recompute"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
    start_up_peak = cuda.max_memory_allocated()
    result = {**row, "n_params": count, "after_init": cuda.memory_allocated(), "init_peak": start_up_peak}
    tokens = torch.randint(0, config.vocab_size, (row["mb"], row["seq"]), device="cuda")
    highest = 0
    for update in range(3):
        cuda.reset_peak_memory_stats()
        loss = engine(input_ids=tokens, labels=tokens).loss
        phases = {"fwd_peak": cuda.max_memory_allocated(), "fwd_end": cuda.memory_allocated()}
        cuda.reset_peak_memory_stats()
        engine.backward(loss)
        phases |= {"bwd_peak": cuda.max_memory_allocated(), "bwd_end": cuda.memory_allocated()}
        del loss
        cuda.reset_peak_memory_stats()
        engine.step()
        phases |= {"step_peak": cuda.max_memory_allocated(), "step_end": cuda.memory_allocated()}
        highest = max(highest, *phases.values())
        if update == 0:
            result["first_update"] = phases
    free, total = cuda.mem_get_info()
    result.update(phases, peak=highest, reserved=cuda.max_memory_reserved())
    result["holders"] = holders_at_peak(cuda.memory._snapshot())
    result["versions"] = {"torch": torch.__version__, "deepspeed": deepspeed.__version__}
    return result


def child(row: dict, configs: Path, timeout: float) -> dict:
    try:
        run = subprocess.run([sys.executable, __file__, "--row", json.dumps(row), "--configs", str(configs)], capture_output=True,
                             text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {**row, "error": f"no answer in {timeout:g} s"}
    lines = [line for line in run.stdout.splitlines() if line.startswith("ROW ")]
    return json.loads(lines[-1][4:]) if lines else {**row, "error": (run.stderr or run.stdout)[-1500:]}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--configs", type=Path, required=True, help="folder of MODEL.json")
    p.add_argument("--row", help="measure this one here and print it")
    p.add_argument("--jobs", type=int, default=6, help="processes at once on the GPU")
    p.add_argument("--timeout", type=float, default=120, help="seconds a row")
    p.add_argument("--first", type=int, help="only so many rows")
    p.add_argument("--models", nargs="+", default=list(MODELS), help="only rows of these")
    p.add_argument("--without-offload", action="store_true", help="only rows without it")
    p.add_argument("-o", "--output", type=Path, default=Path("deepspeed_rows.jsonl"))
    a = p.parse_args()
    if a.row:
        row = json.loads(a.row)
        try:
            print("ROW " + json.dumps(measure(row, a.configs)))
        except Exception as e:  # the row says what went wrong
            row.pop("port", None)
            print("ROW " + json.dumps({**row, "error": f"{type(e).__name__}: {e}", "trace": traceback.format_exc()[-1500:]}))
        return
    grid = [row for row in rows() if row["model"] in a.models and not (a.without_offload and row["offload_optimizer"] != "none")]
    grid = grid[: a.first]
    with ThreadPoolExecutor(a.jobs) as pool, open(a.output, "w") as out:
        tasks = [pool.submit(child, {**row, "port": str(29600 + i)}, a.configs, a.timeout) for i, row in enumerate(grid)]
        for i, task in enumerate(tasks):
            row = task.result()
            row.pop("port", None)
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(f"{i + 1}/{len(grid)} {row['model']} stage {row['stage']}: {row.get('error', row.get('peak'))}", flush=True)


if __name__ == "__main__":
    main()
