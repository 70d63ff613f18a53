"""500 configurations and 200 hostfiles through the real libraries and through zeroplan; each difference with its reason."""
import collections
import copy
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import generate

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.CRITICAL)
import deepspeed.runtime.config as ds_config  # noqa: E402
from accelerate.utils import DeepSpeedPlugin  # noqa: E402
from deepspeed.launcher import runner  # noqa: E402
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig  # noqa: E402

HIDDEN = 4096
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
DEFAULTS = {"max_grad_norm": 1.0, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.0,
            "fp16": False, "bf16": False, "fp16_full_eval": False, "bf16_full_eval": False, "save_on_each_node": False}


def trainer_args(case):
    a = types.SimpleNamespace(**{**DEFAULTS, **case["args"]}, world_size=case["world"])
    warmup = a.warmup_steps
    a.get_warmup_steps = lambda n: int(warmup) if warmup >= 1 else -int(-n * warmup // 1)
    return a


def engine(config, world):
    """What DeepSpeed makes of a dict: the batch sizes."""
    ds_config.dist.get_rank = lambda *a, **k: 0
    ds_config.dist.get_world_size = lambda *a, **k: world
    parsed = ds_config.DeepSpeedConfig(copy.deepcopy(config))
    return {key: getattr(parsed, key) for key in BATCH}


def reference(case):
    """(verdict, batch, filled, message) of the real libraries."""
    config = copy.deepcopy(case["config"])
    try:
        if case["reader"] == "hf-trainer":
            hf = HfTrainerDeepSpeedConfig(config)
            args = trainer_args(case)
            hf.trainer_config_process(args)
            plugin = DeepSpeedPlugin(hf_ds_config=hf)
            model = types.SimpleNamespace(config=types.SimpleNamespace(hidden_size=HIDDEN))
            hf.trainer_config_finalize(args, model, case["args"]["max_steps"])
            fill_as_prepare(plugin, case)
            config = hf.config
        elif case["reader"] == "accelerate":
            plugin = DeepSpeedPlugin(hf_ds_config=config)
            precision = "bf16" if case["args"].get("bf16") else "fp16" if case["args"].get("fp16") else "no"
            plugin.set_mixed_precision(precision)
            fill_as_prepare(plugin, case)
            config = plugin.deepspeed_config
        config.pop("steps_per_print", None)
        return True, engine(config, case["world"]), config, ""
    except Exception as error:  # noqa: BLE001: whatever the library raises is its verdict
        return False, None, config, f"{type(error).__name__}: {error}"[:160].replace("\n", " ")


def fill_as_prepare(plugin, case):
    """The part of Accelerator.prepare that fills; objects replaced by their numbers."""
    a = {**DEFAULTS, **case["args"]}
    plugin.fill_match("train_micro_batch_size_per_gpu", must_match=False,
                      train_micro_batch_size_per_gpu=a["per_device_train_batch_size"])
    plugin.fill_match("gradient_accumulation_steps", must_match=False, gradient_accumulation_steps=a["gradient_accumulation_steps"])
    micro, steps = plugin.get_value("train_micro_batch_size_per_gpu"), plugin.get_value("gradient_accumulation_steps")
    values = {"gradient_clipping": 1.0, "zero_optimization.stage3_gather_16bit_weights_on_model_save": False,
              "zero_optimization.reduce_bucket_size": HIDDEN * HIDDEN,
              "zero_optimization.stage3_prefetch_bucket_size": int(0.9 * HIDDEN * HIDDEN),
              "zero_optimization.stage3_param_persistence_threshold": 10 * HIDDEN,
              "optimizer.params.lr": a["learning_rate"], "optimizer.params.weight_decay": a["weight_decay"],
              "scheduler.params.warmup_min_lr": 0, "scheduler.params.warmup_max_lr": a["learning_rate"],
              "scheduler.params.warmup_num_steps": trainer_args(case).get_warmup_steps(a["max_steps"]),
              "scheduler.params.total_num_steps": a["max_steps"]}
    if micro is not None:
        values |= {"train_micro_batch_size_per_gpu": micro, "train_batch_size": micro * steps * case["world"]}
    plugin.deepspeed_config_process(must_match=False, **values)


def ask(program, case, folder, index):
    path = folder / f"{index}.json"
    path.write_text(json.dumps(case["config"]))
    (folder / f"{index}.args").write_text(json.dumps(case["args"]))
    line = [program, "check", path, "--framework", case["reader"], "--gpus", str(case["world"]), "--model", folder / "model.json", "--json"]
    if case["reader"] != "deepspeed":
        line += ["--args", folder / f"{index}.args"]
    answer = subprocess.run(line, capture_output=True, text=True, timeout=60)
    return json.loads(answer.stdout)


# Where zeroplan is right to differ: a word of the finding's key or message, and why.
STRICTER = (
    ("no effect", "a warning"),
    ("nvme needs stage 3", "DeepSpeed silently keeps NVMe states in host memory below stage 3"),
    ("nvme_path is not given", "fails when the engine is built, not when the file is read"),
    ("needs ZeRO: at stage 0", "fails when the optimizer meets GPU parameters"),
    ("even at stages 1 and 2", "asserted when the engine is built"),
    ("expected an integer of at least 1", "a batch of another type passes the arithmetic and fails in the data loader"),
    ("is a string", "a text in the place of a number or truth value passes the parser and misleads other readers"),
    ("counts as true", "a text in the place of a truth value counts as true"),
    ("compare it with a number", "the trainer sees no stage in a text"),
    ("since July 2026", "raised when the scheduler is built"),
    ("only the Hugging Face trainer", "DeepSpeed drops auto and silently takes its default"),
    ("both names", "two names of one key"),
    ("write a number without quotes", "fails in the constructor"),
    ("nobody fills this key", "fails later, in the constructor"),
)


def reason_for(verdict, doc, message):
    errors = [f for f in doc["findings"] if f["severity"] == "error"]
    if verdict and errors:
        for finding in errors:
            if not any(word in finding["message"] + finding["fix"] for word, _ in STRICTER):
                return None
        return next(why for word, why in STRICTER if word in errors[0]["message"] + errors[0]["fix"])
    return None


def same(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def compare_configs(program, count):
    reasons, unexplained, resolved_wrong, filled_wrong = collections.Counter(), [], [], []
    agreed = 0
    cases = list(generate.configs(count))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "model.json").write_text(json.dumps({"model_type": "other", "hidden_size": HIDDEN}))
        with ThreadPoolExecutor(2) as pool:
            docs = list(pool.map(lambda item: ask(program, item[1], folder, item[0]), enumerate(cases)))
    for index, (case, doc) in enumerate(zip(cases, docs)):
        verdict, batch, filled, message = reference(case)
        if verdict == (doc["errors"] == 0):
            agreed += 1
        else:
            why = reason_for(verdict, doc, message)
            if why:
                reasons[why] += 1
            else:
                errors = [f"{f['key']}: {f['message']}" for f in doc["findings"] if f["severity"] == "error"]
                unexplained.append(f"#{index} {case['reader']}: library {'accepts' if verdict else message}; zeroplan {errors[:2]}")
        if verdict and any(doc["resolved"][key] != batch[key] for key in BATCH):
            resolved_wrong.append(f"#{index} {case['reader']} {batch} / {doc['resolved']}")
        if verdict and not same(filled, doc["filled"]):
            filled_wrong.append(f"#{index} {case['reader']}\n   library  {json.dumps(filled)}\n   zeroplan {json.dumps(doc['filled'])}")
    print(f"configs: {len(cases)}, verdicts equal {agreed}, different for a reason {sum(reasons.values())}, unexplained {len(unexplained)}, "
          f"resolved different {len(resolved_wrong)}, filled different {len(filled_wrong)}")
    for why, n in reasons.most_common():
        print(f"  {n:4} {why}")
    for line in (unexplained + resolved_wrong + filled_wrong)[:int(os.environ.get("SHOW", 40))]:
        print("  " + line)
    return not (unexplained or resolved_wrong or filled_wrong)


def launch_reference(text, kind, filter_text):
    try:
        pool = runner._parse_hostfile(text.splitlines())
        active = {host: list(range(slots)) for host, slots in pool.items()}
        found = runner.parse_resource_filter(active, **({f"{kind}_str": filter_text} if kind != "none" else {}))
        return {host: list(slots) for host, slots in found.items()}
    except ValueError as error:
        return f"{error}"


def compare_hostfiles(program, count):
    r = random.Random(7)
    equal, reasons, wrong = 0, collections.Counter(), []
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "hosts"
        for index in range(count):
            text, kind, filter_text = generate.hostfile(r)
            path.write_text(text)
            line = [program, "launch", "--hostfile", path] + ([f"--{kind}", filter_text] if kind != "none" else [])
            doc = json.loads(subprocess.run(line + ["--dry-run", "--json", "--", "train", "p"], capture_output=True, text=True).stdout)
            ours = {h["name"]: h["slots"] for h in doc["hosts"]} if "hosts" in doc else doc["error"]["message"]
            theirs = launch_reference(text, kind, filter_text)
            if isinstance(ours, str) and isinstance(theirs, str) or ours == theirs:
                equal += 1
            elif "slots=4x" in text:
                reasons["DeepSpeed reads slots=4x as 4"] += 1
            elif "slots=0" in text:
                reasons["DeepSpeed accepts a host without slots"] += 1
            elif theirs == {}:
                reasons["DeepSpeed starts nothing when every slot is excluded"] += 1
            else:
                wrong.append(f"#{index} {kind} {filter_text!r} of {text!r}: DeepSpeed {theirs}, zeroplan {ours}")
    print(f"hostfiles: {count}, equal {equal}, different for a reason {sum(reasons.values())}, unexplained {len(wrong)}")
    for why, n in reasons.items():
        print(f"  {n:4} {why}")
    for line in wrong[:20]:
        print("  " + line)
    return not wrong


if __name__ == "__main__":
    first = compare_configs(sys.argv[1], int(os.environ.get("CONFIGS", 500)))
    second = compare_hostfiles(sys.argv[1], int(os.environ.get("HOSTFILES", 200)))
    sys.exit(0 if first and second else 1)
