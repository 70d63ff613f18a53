#!/usr/bin/env python3
"""A full fp32 training step on the CPU, timed against PyTorch (eager, sdpa, fused AdamW) in alternating pairs.

The model is Llama-style: 6 layers, width 384, 6 heads, 2 key-value heads, FFN 1024, 256 words; 8 sequences of 256 tokens a step. Both
sides use the same number of threads and run one after the other, in the other order in every second pair. A step is everything:
forward, loss, backward, clipping, update. Prints the median of PyTorch's time / zeroplan's time (above 1: zeroplan is faster), its
spread, and the resident peak of both processes. Needs PyTorch from PyPI in the Python that runs this.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
          "vocab_size": 256, "max_position_embeddings": 256, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6,
          "num_key_value_heads": 2, "intermediate_size": 1024, "rope_theta": 10000.0}
BATCH, TOKENS = 8, 256


def torch_steps(threads: int, steps: int) -> dict:
    """Times steps of the model in plain PyTorch modules; {times_s, peak_bytes}."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    width, heads, kv_heads, ffn = 384, 6, 2, 1024
    size = width // heads

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
            self.q = nn.Linear(width, width, bias=False)
            self.k = nn.Linear(width, kv_heads * size, bias=False)
            self.v = nn.Linear(width, kv_heads * size, bias=False)
            self.o = nn.Linear(width, width, bias=False)
            self.gate = nn.Linear(width, ffn, bias=False)
            self.up = nn.Linear(width, ffn, bias=False)
            self.down = nn.Linear(ffn, width, bias=False)

        def forward(self, x, cos, sin):
            batch, tokens, _ = x.shape
            h = self.norm1(x)

            def split(t, n):
                return t.view(batch, tokens, n, size).transpose(1, 2)

            def rotate(t):
                a, b = t.chunk(2, dim=-1)
                return t * cos + torch.cat((-b, a), dim=-1) * sin

            q, k, v = rotate(split(self.q(h), heads)), rotate(split(self.k(h), kv_heads)), split(self.v(h), kv_heads)
            k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
            h = self.norm2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(CONFIG["vocab_size"], width)
            self.blocks = nn.ModuleList(Block() for _ in range(CONFIG["num_hidden_layers"]))
            self.norm = nn.RMSNorm(width, eps=1e-5)
            self.head = nn.Linear(width, CONFIG["vocab_size"], bias=False)
            angles = torch.outer(torch.arange(TOKENS), 10000.0 ** (-torch.arange(0, size, 2) / size))
            angles = torch.cat((angles, angles), dim=-1)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            return self.head(self.norm(x))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    times = []
    for _ in range(steps):
        tokens = torch.randint(0, CONFIG["vocab_size"], (BATCH, TOKENS + 1))
        begin = time.perf_counter()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, CONFIG["vocab_size"]), tokens[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append(time.perf_counter() - begin)
    return {"times_s": times, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "version": torch.__version__}


def median_step(times: list[float]) -> float:
    return statistics.median(times[2:])


def run_torch(threads: int, steps: int) -> tuple[float, int]:
    text = subprocess.run([sys.executable, __file__, "--torch", "--threads", str(threads), "--steps", str(steps)], check=True,
                          capture_output=True, text=True).stdout
    answer = json.loads(text.splitlines()[-1])
    return median_step(answer["times_s"]), answer["peak_bytes"]


def run_zeroplan(program: Path, folder: Path, threads: int, steps: int) -> tuple[float, int]:
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    command = [program, "train", folder / "plan.json", "--data", "random", "--ranks", 1, "--threads", threads, "--steps", steps, "--lr",
               1e-4, "--weight-decay", 0.01, "--grad-clip", 1, "--log", log, "--quiet"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"zeroplan train ended with status {status}")
    steps_s = [json.loads(line)["step_s"] for line in log.read_text().splitlines() if '"step_s"' in line and '"summary"' not in line]
    return median_step(steps_s), usage.ru_maxrss * 1024


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, default=Path("build/release/cli/zeroplan"))
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--steps", type=int, default=12, help="of each run; the first two are left out of its median")
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--least", type=float, default=0.95, help="smallest median ratio")
    p.add_argument("--torch", action="store_true", help="internal: time PyTorch alone")
    a = p.parse_args()
    if a.torch:
        print(json.dumps(torch_steps(a.threads, a.steps)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder, program = Path(scratch), a.binary.resolve()
        (folder / "model.json").write_text(json.dumps(CONFIG))
        subprocess.run(list(map(str, [program, "plan", folder / "model.json", "--machine", "gpus=1", "--stage", 0, "--precision", "fp32", "--seq",
                                      TOKENS, "--micro-batch", BATCH, "--accumulation", 1, "--recompute", "none", "--backend", "cpu",
                                      "--comm", "loopback", "-o", folder / "plan.json"])), check=True, stdout=subprocess.DEVNULL)
        pairs = []
        for i in range(a.pairs):
            sides = [lambda: run_torch(a.threads, a.steps), lambda: run_zeroplan(program, folder, a.threads, a.steps)]
            if i % 2 == 0:
                theirs, ours = sides[0](), sides[1]()
            else:
                ours, theirs = sides[1](), sides[0]()
            pairs.append((theirs, ours))
            print(f"pair {i + 1}: PyTorch {1e3 * theirs[0]:.1f} ms, zeroplan {1e3 * ours[0]:.1f} ms, ratio {theirs[0] / ours[0]:.3f}",
                  flush=True)
    ratios = [theirs[0] / ours[0] for theirs, ours in pairs]
    ratio = statistics.median(ratios)
    print(f"{a.threads} threads, {a.pairs} pairs of {a.steps} steps: PyTorch / zeroplan median {ratio:.3f} (least {min(ratios):.3f}, most "
          f"{max(ratios):.3f}), required {a.least}")
    print(f"resident peak: PyTorch {pairs[0][0][1] / 2**20:.0f} MiB, zeroplan {pairs[0][1][1] / 2**20:.0f} MiB")
    sys.exit(0 if ratio >= a.least else 1)


if __name__ == "__main__":
    main()
