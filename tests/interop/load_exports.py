"""Loads every file that `zeroplan tune --export` writes into DeepSpeed and Accelerate themselves.

usage: load_exports.py PROGRAM    (run.sh calls it; exit 1 if a file is refused or read as something else)
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import yaml

os.environ.setdefault("DS_ACCELERATOR", "cpu")

RANKS = 4
PRECISIONS = ("fp32", "bf16", "bf16-mixed", "fp16-mixed")


def tune(program: str, folder: Path, *arguments: str) -> None:
    subprocess.run([program, "tune", "gpt2", "--machine", f"h100,gpus={RANKS}", "--global-batch", "16", "--seq", "256", *arguments],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL)


def load_deepspeed(path: Path, stage: int) -> None:
    from deepspeed.runtime.config import DeepSpeedConfig
    with mock.patch("deepspeed.comm.get_world_size", lambda *_, **__: RANKS), mock.patch("deepspeed.comm.get_rank", lambda *_, **__: 0):
        config = DeepSpeedConfig(str(path))
    written = json.loads(path.read_text())
    assert config.zero_config.stage == stage, f"stage {config.zero_config.stage}"
    assert config.train_batch_size == 16, f"batch {config.train_batch_size}"
    assert config.train_micro_batch_size_per_gpu == written["train_micro_batch_size_per_gpu"]


def load_accelerate(path: Path, kind: str) -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    config = load_config_from_file(str(path))
    assert config.distributed_type == kind, f"distributed type {config.distributed_type}"
    assert config.num_processes == RANKS


def main() -> int:
    program, faults, loaded = str(Path(sys.argv[1]).resolve()), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for stage in range(4):
            for precision in PRECISIONS:
                flags = ("--stage", str(stage), "--precision", precision)
                tune(program, folder, *flags, "--export", "deepspeed=ds.json", "accelerate=with_file.yaml", "fsdp=fsdp.yaml")
                tune(program, folder, *flags, "--export", "accelerate=inline.yaml")
                checks = ((load_deepspeed, "ds.json", stage), (load_accelerate, "with_file.yaml", "DEEPSPEED"),
                          (load_accelerate, "inline.yaml", "DEEPSPEED"))
                for check, file, wanted in checks:
                    try:
                        check(folder / file, wanted)
                        loaded += 1
                    except Exception as e:  # whatever the libraries raise is a refusal
                        faults += 1
                        print(f"FAIL stage {stage}, {precision}, {file}: {e!r}")
                assert set(yaml.safe_load((folder / "fsdp.yaml").read_text())) == {"fully_shard", "torchtitan"}
    print(f"exports: {loaded} files loaded, {faults} refused")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
