#!/usr/bin/env python3
"""Predicted against measured step times on this machine's CPU.

Calibrates once (no model involved), then plans and trains three small models at ZeRO stage 0 and 3 on one and two ranks, in each
precision, with threads = cores / ranks, in rounds that go through all of them, so that a busy minute hits all alike. Prints for each the median of
predicted / measured over the rounds and its spread; exits 1 if a median is off by more than --most, or the median of their deviations by more than --typical.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
         "vocab_size": 256, "max_position_embeddings": 512}
SHAPES = {
    "llama L=4 h=256 T=256 b=4": (dict(LLAMA, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                                       intermediate_size=704), 256, 4),
    "llama L=8 h=128 T=512 b=2": (dict(LLAMA, hidden_size=128, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2,
                                       intermediate_size=352), 512, 2),
    "gpt2 L=6 h=192 T=128 b=8": ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 192, "n_layer": 6,
                                  "n_head": 6, "n_positions": 128, "vocab_size": 256, "attn_pdrop": 0, "embd_pdrop": 0,
                                  "resid_pdrop": 0}, 128, 8),
}


def run(program: Path, *arguments: object) -> str:
    return subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, default=Path("build/release/cli/zeroplan"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=20, help="of each run; the first is left out of the median")
    p.add_argument("--most", type=float, default=0.25, help="largest deviation of a median ratio from 1")
    p.add_argument("--typical", type=float, default=0.15, help="largest median deviation over all cases")
    p.add_argument("--precision", nargs="+", default=["fp32", "bf16-mixed", "fp16-mixed", "bf16"])
    p.add_argument("--machine", type=Path, help="a machine document, instead of calibrating")
    a = p.parse_args()
    cores = len(os.sched_getaffinity(0))
    program = a.binary.resolve()
    ratios: dict[tuple, list[float]] = {}
    times: dict[tuple, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        machine = a.machine or folder / "machine.json"
        if not a.machine:
            run(program, "calibrate", "--quiet", "-o", machine)
        for name, (config, _, _) in SHAPES.items():
            (folder / f"{name}.json").write_text(json.dumps(config))
        for _ in range(a.rounds):
            for name, (_, seq, batch) in SHAPES.items():
                for stage in (0, 3):
                    for ranks, precision in itertools.product((1, 2), a.precision):
                        plan, log = folder / "plan.json", folder / "log.jsonl"
                        log.unlink(missing_ok=True)
                        run(program, "plan", folder / f"{name}.json", "--machine", machine, "--gpus", ranks, "--stage", stage,
                            "--precision", precision, "--seq", seq, "--micro-batch", batch, "--accumulation", 1, "--recompute", "none",
                            "--backend", "cpu", "--comm", "loopback", "-o", plan)
                        run(program, "train", plan, "--data", "random", "--ranks", ranks, "--threads", max(1, cores // ranks),
                            "--steps", a.steps, "--log", log, "--quiet")
                        summary = json.loads(log.read_text().splitlines()[-1])["summary"]
                        pair = summary["predicted_step_s"], summary["measured_step_s"]
                        times.setdefault((name, stage, ranks, precision), []).append(pair)
                        ratios.setdefault((name, stage, ranks, precision), []).append(pair[0] / pair[1])
    print(f"{cores} cores; predicted / measured, {a.rounds} rounds of {a.steps} steps")
    print(f"{'model':<28}{'stage':>6}{'ranks':>6}{'precision':>12}{'predicted ms':>14}{'measured ms':>14}{'ratio':>8}{'least':>8}{'most':>8}")
    deviations = []
    for key, values in ratios.items():
        median = statistics.median(values)
        deviations.append(abs(median - 1))
        predicted = 1e3 * statistics.median(t[0] for t in times[key])
        measured = 1e3 * statistics.median(t[1] for t in times[key])
        print(f"{key[0]:<28}{key[1]:>6}{key[2]:>6}{key[3]:>12}{predicted:>14.2f}{measured:>14.2f}{median:>8.3f}{min(values):>8.3f}{max(values):>8.3f}")
    worst, typical = max(deviations), statistics.median(deviations)
    print(f"deviation of the medians from 1: largest {100 * worst:.1f} % (allowed {100 * a.most:.0f} %), "
          f"median {100 * typical:.1f} % (allowed {100 * a.typical:.0f} %)")
    sys.exit(0 if worst <= a.most and typical <= a.typical else 1)


if __name__ == "__main__":
    main()
