"""Learning rates of 201 steps: transformers' schedules and DeepSpeed's, and the betas that OneCycle moves. Entry i is what optimizer
step i (from 0) uses."""
import importlib.util
import json
from pathlib import Path

import torch
import transformers

STEPS, BASE_RATE = 201, 1e-3
TRANSFORMERS = {"linear": transformers.get_linear_schedule_with_warmup, "cosine": transformers.get_cosine_schedule_with_warmup,
                "constant": transformers.get_constant_schedule_with_warmup}
WARMUP = {"warmup_min_lr": 0.0, "warmup_max_lr": 1e-3, "warmup_num_steps": 10}
CYCLE = {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 20}
CASES = [
    ("linear", {"num_warmup_steps": 0, "num_training_steps": 60}),
    ("linear", {"num_warmup_steps": 10, "num_training_steps": 50}),
    ("cosine", {"num_warmup_steps": 0, "num_training_steps": 60}),
    ("cosine", {"num_warmup_steps": 7, "num_training_steps": 55}),
    ("constant", {"num_warmup_steps": 0}),
    ("constant", {"num_warmup_steps": 12}),
    ("linear", {"num_warmup_steps": 20, "num_training_steps": 200}),
    ("linear", {"num_warmup_steps": 30, "num_training_steps": 30}),
    ("cosine", {"num_warmup_steps": 1, "num_training_steps": 201}),
    ("cosine", {"num_warmup_steps": 40, "num_training_steps": 20}),
    ("WarmupLR", WARMUP),
    ("WarmupLR", WARMUP | {"warmup_type": "linear"}),
    ("WarmupLR", WARMUP | {"warmup_min_lr": 1e-4, "warmup_num_steps": 1}),
    ("WarmupLR", WARMUP | {"warmup_min_lr": 2e-4, "warmup_num_steps": 25, "warmup_type": "linear"}),
    ("WarmupLR", {}),
    ("WarmupLR", {"warmup_max_lr": 3e-4, "warmup_num_steps": 2}),
    ("WarmupLR", {"warmup_min_lr": 1e-3, "warmup_max_lr": 1e-4, "warmup_num_steps": 150}),
    ("WarmupDecayLR", WARMUP | {"total_num_steps": 50}),
    ("WarmupDecayLR", {"total_num_steps": 180, "warmup_num_steps": 100}),
    ("WarmupDecayLR", {"total_num_steps": 10, "warmup_num_steps": 20, "warmup_type": "linear"}),
    ("WarmupDecayLR", WARMUP | {"total_num_steps": 60, "warmup_type": "linear", "warmup_min_lr": 1e-4}),
    ("WarmupCosineLR", {"total_num_steps": 50, "warmup_num_steps": 10}),
    ("WarmupCosineLR", {"total_num_steps": 60, "warmup_num_steps": 5, "warmup_min_ratio": 0.1, "cos_min_ratio": 0.05,
                        "warmup_type": "linear"}),
    ("WarmupCosineLR", {"total_num_steps": 200}),
    ("WarmupCosineLR", {"total_num_steps": 200, "warmup_num_steps": 1, "cos_min_ratio": 0.0}),
    ("WarmupCosineLR", {"total_num_steps": 5, "warmup_num_steps": 20, "warmup_min_ratio": 0.5}),
    ("OneCycle", CYCLE),
    ("OneCycle", CYCLE | {"cycle_second_step_size": 10, "decay_step_size": 5, "decay_lr_rate": 0.1}),
    ("OneCycle", CYCLE | {"cycle_first_stair_count": 4, "cycle_second_stair_count": 5, "decay_step_size": 3, "decay_lr_rate": 0.5}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3}),
    ("OneCycle", CYCLE | {"cycle_second_step_size": 0, "decay_step_size": 10, "decay_lr_rate": 1.0}),
    ("OneCycle", CYCLE | {"cycle_first_step_size": 70, "cycle_second_step_size": 110, "cycle_first_stair_count": 7}),
    ("OneCycle", CYCLE | {"cycle_first_step_size": 33, "cycle_second_step_size": 99, "cycle_first_stair_count": 0,
                          "cycle_second_stair_count": 9}),
    ("OneCycle", CYCLE | {"cycle_first_step_size": 49, "cycle_second_step_size": 98, "cycle_first_stair_count": 10,
                          "cycle_second_stair_count": 0, "cycle_min_mom": 0.7, "cycle_max_mom": 0.95}),
    ("OneCycle", CYCLE | {"cycle_min_mom": 0.6, "cycle_max_mom": 0.8, "decay_step_size": 40, "decay_mom_rate": 0.05}),
    ("OneCycle", CYCLE | {"cycle_momentum": False, "cycle_first_step_size": 90}),
    ("LRRangeTest", {}),
    ("LRRangeTest", {"lr_range_test_step_size": 13, "lr_range_test_step_rate": 0.25}),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 10, "lr_range_test_step_rate": 1.0}),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 7, "lr_range_test_step_rate": 2.0,
                     "lr_range_test_staircase": True}),
]


def deepspeed_schedules():
    """DeepSpeed's module of schedules by itself: the package as a whole wants a compiler and accelerators."""
    package = importlib.util.find_spec("deepspeed")
    if package is None:
        raise SystemExit("deepspeed is not installed: pip install --no-deps -r requirements-schedules.txt")
    source = (Path(package.submodule_search_locations[0]) / "runtime/lr_schedules.py").read_text()
    # The logger is all that it takes from the rest of the package.
    source = source.replace("from deepspeed.utils import logger", "import logging\nlogger = logging.getLogger('schedules')")
    names: dict = {"__name__": "lr_schedules"}
    exec(compile(source, "lr_schedules.py", "exec"), names)
    return names


def case(name: str, arguments: dict, deepspeed) -> dict:
    """Rates, and the betas of each step where the schedule moved them."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=BASE_RATE)
    given = optimizer.param_groups[0]["betas"]
    schedule = TRANSFORMERS[name](optimizer, **arguments) if name in TRANSFORMERS else deepspeed[name](optimizer, **arguments)
    rates, betas = [], []
    for _ in range(STEPS):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        betas.append(list(optimizer.param_groups[0]["betas"]))
        optimizer.step()
        schedule.step()
    moved = any(tuple(each) != given for each in betas)
    return {"schedule": name, "arguments": arguments, "rates": rates} | ({"betas": betas} if moved else {})


def write_schedules(out: Path) -> None:
    deepspeed = deepspeed_schedules()
    document = {"steps": STEPS, "base_rate": BASE_RATE, "cases": [case(name, arguments, deepspeed) for name, arguments in CASES]}
    (out / "schedules.json").write_text(json.dumps(document) + "\n")
