#!/usr/bin/env python3
"""Training on a GPU against training on the CPU, with the same plan but for the back end, the same weights and the same tokens.

For small models of two families, at ZeRO stages 0 to 3 with 1, 2 and 4 ranks on one card:
  - fp32: each of 20 losses within 1e-4 of the CPU's, relatively (Lion: 1e-3); bf16-mixed and others within 2e-2;
  - run to run: the same losses and gradient norms, bit for bit;
  - memory: used = planned, and what the card holds besides.
Prints a line a case, then a verdict; goes on after a failure. Exit status 1 if any case failed.
"""
import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 256,
        "vocab_size": 1000, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0}
QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
         "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000,
         "max_position_embeddings": 256, "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "rope_theta": 10000.0}
MODELS = {"gpt2": GPT2, "qwen3": QWEN3}
TOLERANCE = {"fp32": 1e-4, "bf16-mixed": 2e-2, "bf16": 5e-2, "fp16-mixed": 2e-2}
# Lion steps by the sign of a sum: where that is near zero, another order of rounding turns a step of a whole learning rate around.
LION_TOLERANCE = 1e-3


class Bench:
    def __init__(self, program: Path, folder: Path, steps: int, threads: int, limit_s: float):
        self.program, self.folder, self.steps, self.threads = program, folder, steps, threads
        self.end = time.monotonic() + limit_s
        self.failures: list[str] = []
        self.cases = 0
        for name, config in MODELS.items():
            (folder / f"{name}.json").write_text(json.dumps(config))

    def run(self, command: list) -> subprocess.CompletedProcess:
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)

    def train(self, case: dict, backend: str) -> dict:
        """{losses, norms, summary}, or {error}."""
        plan = self.folder / f"{case['number']}-{backend}.plan.json"
        log = self.folder / f"{case['number']}-{backend}.jsonl"
        log.unlink(missing_ok=True)
        made = self.run([self.program, "plan", self.folder / f"{case['model']}.json", "--machine", f"h200,gpus={case['ranks']}", "--stage",
                         case["stage"], "--precision", case["precision"], "--seq", 256, "--micro-batch", 4, "--accumulation",
                         case.get("accumulation", 1), "--recompute", case.get("recompute", "none"), "--optimizer",
                         case.get("optimizer", "adamw"), "--param-persistence-threshold", 1000, "--backend", backend, "--comm",
                         "loopback", "-o", plan])
        if made.returncode != 0:
            return {"error": f"plan: {made.stderr.strip() or made.stdout.strip()}"}
        trained = self.run([self.program, "train", plan, "--data", "random", "--steps", self.steps, "--lr", 1e-3, "--seed", 3, "--log", log,
                            "--quiet", "--threads", max(1, self.threads // case["ranks"])])
        if trained.returncode != 0:
            return {"error": f"train: exit {trained.returncode}: {trained.stderr.strip()[-400:]}"}
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        steps = [line for line in lines if "summary" not in line]
        return {"losses": [s["loss"] for s in steps], "norms": [s["grad_norm"] for s in steps], "summary": lines[-1]["summary"]}

    def check(self, case: dict) -> None:
        if time.monotonic() > self.end:
            print(f"not run, time is up: case {case['number']}", flush=True)
            return
        self.cases += 1
        name = " ".join(f"{key}={value}" for key, value in case.items() if key != "number")
        try:
            problems, text = self.compare(case)
        except Exception as error:  # a report must come out whatever happens
            problems, text = [repr(error)], ""
        print(f"{'FAIL' if problems else 'ok  '} {name}: {text} {'; '.join(problems)}", flush=True)
        if problems:
            self.failures.append(name)

    def compare(self, case: dict) -> tuple[list[str], str]:
        gpu = self.train(case, "cuda")
        if "error" in gpu:
            return [gpu["error"]], ""
        again = self.train(case, "cuda")
        cpu = self.train(case, "cpu")
        problems = []
        if "error" in cpu:
            return [f"cpu: {cpu['error']}"], ""
        if again.get("losses") != gpu["losses"] or again.get("norms") != gpu["norms"]:
            problems.append("two runs differ")
        worst = max(abs(a - b) / abs(b) if a == a else float("inf") for a, b in zip(gpu["losses"], cpu["losses"]))
        norm = max(abs(a - b) / abs(b) if a == a else float("inf") for a, b in zip(gpu["norms"], cpu["norms"]))
        allowed = LION_TOLERANCE if case.get("optimizer") == "lion" else TOLERANCE[case["precision"]]
        if not worst <= allowed or len(gpu["losses"]) != self.steps:
            problems.append(f"losses differ by {worst:.2e}: {gpu['losses'][:3]} and {cpu['losses'][:3]}")
        summary = gpu["summary"]
        if summary["used"]["device"] != summary["planned"]["device"]:
            problems.append(f"used {summary['used']['device']}, planned {summary['planned']['device']}")
        written = summary["written"]["device"] / max(1, summary["planned"]["device"])
        return problems, f"loss {worst:.1e} norm {norm:.1e} relative, last {gpu['losses'][-1]:.5f}, written {written:.3f}"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", type=Path)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--threads", type=int, default=8, help="of the CPU back end, over all ranks")
    p.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    p.add_argument("--limit-s", type=float, default=1e9, help="no new case after so many seconds")
    a = p.parse_args()
    cases = [{"model": "gpt2", "precision": "fp32", "stage": 0, "ranks": 1}, {"model": "qwen3", "precision": "fp32", "stage": 0, "ranks": 1},
             {"model": "gpt2", "precision": "bf16-mixed", "stage": 0, "ranks": 1},
             {"model": "qwen3", "precision": "bf16-mixed", "stage": 0, "ranks": 1}]
    cases += [{"model": "gpt2", "precision": "fp32", "stage": stage, "ranks": ranks} for stage, ranks in itertools.product(range(4), (2, 4))]
    cases += [{"model": "qwen3", "precision": "bf16-mixed", "stage": stage, "ranks": ranks} for stage, ranks in
              itertools.product(range(4), (2, 4))]
    cases += [{"model": "gpt2", "precision": "fp32", "stage": 2, "ranks": 2, "accumulation": 3},
              {"model": "qwen3", "precision": "fp32", "stage": 3, "ranks": 2, "recompute": "full"},
              {"model": "qwen3", "precision": "bf16-mixed", "stage": 0, "ranks": 1, "accumulation": 2, "recompute": "selective"},
              {"model": "gpt2", "precision": "bf16", "stage": 0, "ranks": 1}, {"model": "gpt2", "precision": "fp16-mixed", "stage": 0, "ranks": 1},
              {"model": "gpt2", "precision": "fp32", "stage": 1, "ranks": 2, "optimizer": "lamb"},
              {"model": "gpt2", "precision": "fp32", "stage": 0, "ranks": 1, "optimizer": "lion"}]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a.program.resolve(), Path(folder), a.steps, a.threads, a.limit_s)
        print(bench.run([a.program.resolve(), "--version"]).stdout, flush=True)
        with ThreadPoolExecutor(a.jobs) as pool:
            list(pool.map(bench.check, [{**case, "number": number} for number, case in enumerate(cases)]))
    print(f"{bench.cases - len(bench.failures)} of {bench.cases} cases hold, {time.monotonic() - began:.0f} s")
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
