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
MISSING = "<missing>"

with open(sys.argv[1], "w") as out:
    for case in generate.configs(500):
        class_ = HfTrainerDeepSpeedConfig(case["config"])
        answers = [[class_.get_value(p, MISSING), class_.is_true(p), class_.is_false(p), class_.is_auto(p)] for p in PATHS]
        flags = [class_.is_zero2(), class_.is_zero3(), class_.is_offload()]
        class_.del_config_sub_tree("zero_optimization.offload_optimizer")
        class_.del_config_sub_tree("optimizer.params.lr")
        removed = class_.config != case["config"]
        row = {"config": case["config"], "answers": answers, "flags": flags, "removed": removed}
        out.write(json.dumps(row, separators=(",", ":")) + "\n")
