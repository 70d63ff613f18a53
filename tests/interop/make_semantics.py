"""Writes what transformers' class answers about generated configurations, for tests/deepspeed/config_semantics_test.cpp.

usage: make_semantics.py OUT.jsonl   (inside the environment of run.sh)
"""
import json
import logging
import os
import sys

import generate

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.CRITICAL)
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig  # noqa: E402

PATHS = ("train_batch_size", "zero_optimization.stage", "zero_optimization.overlap_comm", "fp16.enabled", "bf16.enabled",
         "zero_optimization.offload_optimizer.device", "optimizer.params.lr", "absent.below.it")
SUB_TREES = ("zero_optimization.offload_optimizer", "optimizer.params.lr", "scheduler")
MISSING = "<missing>"


def remove(config, path):
    """False where it has to exist and does not."""
    try:
        config.del_config_sub_tree(path, must_exist=True)
        return True
    except ValueError:
        return False


with open(sys.argv[1], "w") as out:
    for case in generate.configs(500):
        class_ = HfTrainerDeepSpeedConfig(case["config"])
        answers = [[class_.get_value(p, MISSING), class_.is_true(p), class_.is_false(p), class_.is_auto(p)] for p in PATHS]
        flags = [class_.is_zero2(), class_.is_zero3(), class_.is_offload()]
        removed = [remove(class_, path) for path in SUB_TREES]
        left = {key: class_.config.get(key) for key in ("zero_optimization", "optimizer", "scheduler")}
        row = {"config": case["config"], "answers": answers, "flags": flags, "removed": removed, "left": left}
        out.write(json.dumps(row, separators=(",", ":")) + "\n")
