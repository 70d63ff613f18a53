"""500 configurations and 200 hostfiles through the real libraries and through zeroplan; each difference with its reason."""
import collections
import copy
import inspect
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
import deepspeed  # noqa: E402
import deepspeed.runtime.config as ds_config  # noqa: E402
import torch  # noqa: E402
import transformers.integrations.deepspeed as hf_integration  # noqa: E402
from accelerate import PartialState, accelerator  # noqa: E402
from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler  # noqa: E402
from deepspeed.launcher import runner  # noqa: E402
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad  # noqa: E402
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam  # noqa: E402
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion  # noqa: E402
from deepspeed.runtime import lr_schedules  # noqa: E402
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig  # noqa: E402

HIDDEN = 4096
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
DEFAULTS = {"max_grad_norm": 1.0, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.0,
            "fp16": False, "bf16": False, "fp16_full_eval": False, "bf16_full_eval": False, "save_on_each_node": False}


PartialState(cpu=True)
# The engine is not built, and torch's optimizer is not replaced by the one that has to be compiled first.
deepspeed.initialize = lambda **_: stop_before_the_engine()
accelerator.map_pytorch_optim_to_deepspeed = lambda optimizer: optimizer


def trainer_args(case):
    a = types.SimpleNamespace(**{**DEFAULTS, **case["args"]}, world_size=case["world"])
    warmup = a.warmup_steps
    a.get_warmup_steps = lambda n: int(warmup) if warmup >= 1 else -int(-n * warmup // 1)
    return a


def build_scheduler(config):
    """As the engine builds it: DeepSpeed's class by its name, else torch's."""
    section = config.get("scheduler")
    if not isinstance(section, dict) or section.get("type") is None:
        return
    name = section["type"]
    home = lr_schedules if name in lr_schedules.VALID_LR_SCHEDULES else torch.optim.lr_scheduler
    getattr(home, name)(torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-3), **(section.get("params") or {}))


def bind_optimizer(config):
    """Whether the constructor that the engine would call has the parameters; DeepSpeed's own need a compiler to be called."""
    section = config.get("optimizer")
    if not isinstance(section, dict) or section.get("type") is None:
        return
    name, params = section["type"].lower(), dict(section.get("params") or {})
    zero = config.get("zero_optimization") or {}
    device = (zero.get("offload_optimizer") or {}).get("device", "none") if isinstance(zero, dict) else "none"
    if "max_grad_norm" in params:
        raise ValueError("'max_grad_norm' is not supported as an optimizer parameter")
    if name in ("adam", "adamw", "lion", "adagrad") and device != "none":
        class_ = {"lion": DeepSpeedCPULion, "adagrad": DeepSpeedCPUAdagrad}.get(name, DeepSpeedCPUAdam)
    else:
        class_ = {"adam": FusedAdam, "adamw": FusedAdam, "lion": FusedLion}.get(name) or getattr(torch.optim, section["type"])
    for key in ("torch_adam", "adam_w_mode", "fp32_optimizer_states") if name.startswith("adam") else ():
        params.pop(key, None)
    inspect.signature(class_).bind(None, **params)


def engine(config, world):
    """What DeepSpeed makes of a dict: the batch sizes."""
    ds_config.dist.get_rank = lambda *a, **k: 0
    ds_config.dist.get_world_size = lambda *a, **k: world
    parsed = ds_config.DeepSpeedConfig(copy.deepcopy(config))
    bind_optimizer(config)
    build_scheduler(config)
    return {key: getattr(parsed, key) for key in BATCH}


def reference(case):
    """(verdict, batch, filled, message) of the real libraries."""
    config = copy.deepcopy(case["config"])
    precision = "bf16" if case["args"].get("bf16") else "fp16" if case["args"].get("fp16") else "no"
    try:
        if case["reader"] == "hf-trainer":
            hf = HfTrainerDeepSpeedConfig(config)
            args = trainer_args(case)
            hf.trainer_config_process(args)
            plugin = DeepSpeedPlugin(hf_ds_config=hf)
            plugin.set_mixed_precision(precision)
            hf.trainer_config_finalize(args, Model(), case["args"]["max_steps"])
            trainer = types.SimpleNamespace(create_optimizer=lambda: objects(case, {})[0], create_scheduler=lambda **_: None)
            optimizer, scheduler = hf_integration.deepspeed_optim_sched(trainer, hf, args, case["args"]["max_steps"], [])
            run_prepare(plugin, case, optimizer, scheduler)
            config = hf.config
        elif case["reader"] == "accelerate":
            plugin = DeepSpeedPlugin(hf_ds_config=config)
            plugin.set_mixed_precision(precision)
            run_prepare(plugin, case, *objects(case, config))
            config = plugin.deepspeed_config
        config.pop("steps_per_print", None)
        return True, engine(config, case["world"]), config, ""
    except Exception as error:  # noqa: BLE001: whatever the library raises is its verdict
        return False, None, config, f"{type(error).__name__}: {error}"[:160].replace("\n", " ")


class Prepared(Exception):
    """Raised where Accelerate would build the engine: all that it fills is filled."""


def stop_before_the_engine(**_):
    raise Prepared


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(hidden_size=HIDDEN)
        self.weight = torch.nn.Parameter(torch.zeros(1))


def run_prepare(plugin, case, optimizer, scheduler):
    """Accelerator.prepare itself, up to the engine, with the objects that a program would pass."""
    a = {**DEFAULTS, **case["args"]}
    loader = torch.utils.data.DataLoader([0] * 64, batch_size=a["per_device_train_batch_size"])
    self = types.SimpleNamespace(fp8_backend=None, deepspeed_plugin=plugin, parallelism_config=None, split_batches=False,
                                 gradient_accumulation_steps=a["gradient_accumulation_steps"], num_processes=case["world"],
                                 device=torch.device("cpu"), _prepare_one=lambda obj, first_pass: obj)
    given = [obj for obj in (Model(), optimizer, scheduler, loader) if obj is not None]
    try:
        accelerator.Accelerator._prepare_deepspeed(self, *given)
    except Prepared:
        pass


def objects(case, config):
    """Optimizer and scheduler as a program has to pass them with Accelerate."""
    a = {**DEFAULTS, **case["args"]}
    has_optimizer, has_scheduler = "optimizer" in config, "scheduler" in config
    weights = [torch.nn.Parameter(torch.zeros(1))]
    optimizer = (DummyOptim(weights, lr=a["learning_rate"], weight_decay=a["weight_decay"]) if has_optimizer else
                 torch.optim.AdamW(weights, lr=a["learning_rate"]))
    warmup = trainer_args(case).get_warmup_steps(a["max_steps"])
    # DummyScheduler counts the steps of all ranks together.
    scheduler = DummyScheduler(optimizer, total_num_steps=a["max_steps"] * case["world"], warmup_num_steps=warmup) if has_scheduler else None
    return optimizer, scheduler


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
    ("list of tested optimizers", "asserted when the engine wraps the optimizer"),
    ("total_num_steps is -", "the rate would be that of a finished schedule from the first step on"),
    ("expected two numbers", "fails in the optimizer's constructor"),
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
    agreed, accepted = 0, 0
    cases = list(generate.configs(count, int(os.environ.get("SEED", 5))))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "model.json").write_text(json.dumps({"model_type": "other", "hidden_size": HIDDEN}))
        with ThreadPoolExecutor(2) as pool:
            docs = list(pool.map(lambda item: ask(program, item[1], folder, item[0]), enumerate(cases)))
    for index, (case, doc) in enumerate(zip(cases, docs)):
        verdict, batch, filled, message = reference(case)
        accepted += verdict
        if verdict == (doc["errors"] == 0):
            agreed += 1
        else:
            why = reason_for(verdict, doc, message)
            if why:
                reasons[why] += 1
            else:
                errors = [f"{f['key']}: {f['message']}" for f in doc["findings"] if f["severity"] == "error"]
                unexplained.append(f"#{index} {case['reader']}: library {'accepts' if verdict else message}; zeroplan {errors[:2]}")
        whole = verdict and all(isinstance(size, int) for size in batch.values())  # a fraction has no right answer
        if whole and any(doc["resolved"][key] != batch[key] for key in BATCH):
            resolved_wrong.append(f"#{index} {case['reader']} {batch} / {doc['resolved']}")
        if whole and not same(filled, doc["filled"]):
            filled_wrong.append(f"#{index} {case['reader']}\n   library  {json.dumps(filled)}\n   zeroplan {json.dumps(doc['filled'])}")
    print(f"configs: {len(cases)} ({accepted} accepted by the libraries), verdicts equal {agreed}, different for a reason {sum(reasons.values())}, unexplained {len(unexplained)}, "
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
    r = random.Random(int(os.environ.get("SEED", 7)))
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
