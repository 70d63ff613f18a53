#!/usr/bin/env python3
"""Tokens per second and memory of GPT-2 on one GPU, bf16, beside PyTorch (eager and torch.compile) in the same run.

Each row is the median step of a run after its first 10 steps; --repeats runs, of which the median and the spread are printed. PyTorch's
rows: the same model in plain modules, scaled_dot_product_attention, fused AdamW, bf16 autocast over fp32 weights, and pure bf16 weights and
states (8 bytes a parameter; zeroplan's bf16-mixed holds 16). Needs a Python with PyTorch for those rows.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = {"gpt2": (12, 12, 768), "gpt2-medium": (24, 16, 1024), "gpt2-large": (36, 20, 1280), "gpt2-xl": (48, 25, 1600)}
VOCABULARY, POSITIONS = 50257, 1024
FIRST = 10


def torch_row(model: str, batch: int, steps: int, compiled: bool, pure: bool) -> dict:
    import torch
    from torch import nn
    from torch.nn import functional as F
    layers, heads, width = SIZES[model]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(c, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(POSITIONS, width)
            self.blocks, self.ln = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)

        def forward(self, tokens, labels):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.ln(x), self.wte.weight)
            return F.cross_entropy(logits.view(-1, VOCABULARY).float(), labels.view(-1))

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    net = Model().cuda().to(torch.bfloat16 if pure else torch.float32)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)
    call = torch.compile(net) if compiled else net
    tokens = torch.randint(0, VOCABULARY, (batch, POSITIONS + 1), device="cuda")
    times = []
    for _ in range(steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not pure):
            loss = call(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    step = statistics.median(times[FIRST:])
    return {"tokens_per_s": batch * POSITIONS / step, "peak_bytes": torch.cuda.max_memory_allocated(), "loss": loss.item()}


def zeroplan_row(program: Path, folder: Path, model: str, batch: int, steps: int, extra: list[str]) -> dict:
    plan, log = folder / "plan.json", folder / "log.jsonl"
    log.unlink(missing_ok=True)
    run = lambda words: subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, timeout=400)
    run([program, "plan", model, "--machine", "h200", "--gpus", 1, "--stage", 0, "--precision", "bf16-mixed", "--seq", POSITIONS,
         "--micro-batch", batch, "--accumulation", 1, "--recompute", "none", *extra, "-o", plan])
    run([program, "train", plan, "--data", "random", "--steps", steps, "--log", log, "--quiet"])
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    step = statistics.median([line["step_s"] for line in lines if "summary" not in line][FIRST:])
    summary = lines[-1]["summary"]
    return {"tokens_per_s": batch * POSITIONS / step, "loss": summary["loss"], "planned_bytes": summary["planned"]["device"],
            "used_bytes": summary["used"]["device"], "device": summary["process"]["device"], "predicted_step_s": summary["predicted_step_s"],
            "step_s": step, "lanes": {name: lane["busy_s"] for name, lane in summary["record"]["lanes"].items()}}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", type=Path, nargs="?")
    p.add_argument("--model", default="gpt2", choices=list(SIZES))
    p.add_argument("--batch", type=int, nargs="+", default=[32])
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--rows", nargs="+", default=["zeroplan", "compile-bf16", "compile-amp", "eager-bf16", "eager-amp"])
    p.add_argument("--plan-flags", nargs="*", default=[], help="more flags of `zeroplan plan`, as --plan-flags=--head-chunks=8")
    p.add_argument("--torch", help="internal: one row, as JSON")
    a = p.parse_args()
    if a.torch:
        print(json.dumps(torch_row(a.model, a.batch[0], a.steps, a.torch.startswith("compile"), a.torch.endswith("bf16"))))
        return
    for batch in a.batch:
        for row in a.rows:
            results = []
            for _ in range(a.repeats):
                try:
                    if row == "zeroplan":
                        with tempfile.TemporaryDirectory() as folder:
                            results.append(zeroplan_row(a.program.resolve(), Path(folder), a.model, batch, a.steps, a.plan_flags))
                    else:
                        done = subprocess.run([sys.executable, __file__, "--torch", row, "--model", a.model, "--batch", str(batch), "--steps",
                                               str(a.steps)], capture_output=True, text=True, check=True, timeout=400)
                        results.append(json.loads(done.stdout.splitlines()[-1]))
                except subprocess.CalledProcessError as error:
                    print(f"{a.model} b={batch} {row}: failed: {(error.stderr or error.stdout).strip()[-600:]}", flush=True)
                    break
                except Exception as error:
                    print(f"{a.model} b={batch} {row}: failed: {error!r}", flush=True)
                    break
            if results:
                rates = [r["tokens_per_s"] for r in results]
                print(f"{a.model} b={batch} T={POSITIONS} {row}: {statistics.median(rates):,.0f} tokens/s ({min(rates):,.0f} to {max(rates):,.0f}, "
                      f"{len(rates)} runs) {json.dumps(results[-1])}", flush=True)


if __name__ == "__main__":
    main()
