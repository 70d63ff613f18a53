#!/usr/bin/env python3
"""precision_curves.py PROGRAM [FOLDER]: the loss curves of the precisions on this project's own text.

Trains tiny-llama-bytes for some steps in fp32 and in each 16-bit precision, with the same data, seed and schedule, and
prints the mean loss of the last ten steps and how far it is from that of fp32. Run it in the root of the repository.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PRECISIONS = ["fp32", "bf16-mixed", "fp16-mixed", "bf16"]
LAST = 10


def text_of_project(target: pathlib.Path) -> int:
    """All documents and sources in the order of their names; returns the bytes written."""
    files = sorted(
        path
        for pattern in ("*.md", "*.h", "*.cpp")
        for path in pathlib.Path(".").rglob(pattern)
        if not {"build", ".git"} & set(path.parts)
    )
    target.write_bytes(b"".join(path.read_bytes() for path in files))
    return target.stat().st_size


def run(program: str, *arguments: str) -> None:
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def curve(options: argparse.Namespace, folder: pathlib.Path, precision: str) -> list[dict]:
    plan, log = folder / f"{precision}.plan.json", folder / f"{precision}.jsonl"
    run(
        options.program, "plan", options.model, "--machine", f"cpu,gpus={options.ranks}", "--stage", str(options.stage),
        "--precision", precision, "--seq", "128", "--micro-batch", str(options.micro_batch), "-o", str(plan),
    )  # fmt: skip
    run(
        options.program, "train", str(plan), "--data", str(folder / "text.txt"), "--steps", str(options.steps),
        "--lr", "2e-3", "--warmup-steps", "5", "--schedule", "cosine", "--threads", str(options.threads), "--quiet",
        "--log", str(log),
    )  # fmt: skip
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if "step" in line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--model", default="tiny-llama-bytes")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--micro-batch", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", action="append", choices=PRECISIONS[1:], help="beside fp32 (all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{options.model}, {options.steps} steps, {text_of_project(folder / 'text.txt')} bytes of text")
        expected = None
        for precision in ["fp32", *(options.precision or PRECISIONS[1:])]:
            steps = curve(options, folder, precision)
            loss = sum(step["loss"] for step in steps[-LAST:]) / LAST
            expected = expected or loss
            skipped = sum(1 for step in steps if step.get("skipped"))
            seconds = sorted(step["step_s"] for step in steps)[len(steps) // 2]
            print(
                f"{precision:12} loss of the last {LAST} steps {loss:.5f}  {100 * (loss / expected - 1):+.3f} % of fp32"
                f"  skipped {skipped}  median step {1000 * seconds:.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
