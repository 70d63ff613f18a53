"""Optimizers on one vector: torch's own, and Lion and LAMB by their published formulas, in double precision."""
import json
from pathlib import Path

import torch

ELEMENTS, STEPS = 37, 20
# The rate of step i is lr x FACTORS[i].
FACTORS = [1.0 - 0.75 * abs(10 - i) / 10 for i in range(STEPS)]


def lion(parameter, state, gradient, lr, betas, weight_decay):
    """Chen et al., arXiv 2302.06675, algorithm 2."""
    momentum = state.setdefault("momentum", torch.zeros_like(parameter))
    direction = torch.sign(betas[0] * momentum + (1 - betas[0]) * gradient)
    parameter -= lr * (direction + weight_decay * parameter)
    momentum.mul_(betas[1]).add_((1 - betas[1]) * gradient)


def lamb(parameter, state, gradient, lr, betas, eps, weight_decay, min_coeff, max_coeff):
    """Our transcription of the formulas in DeepSpeed's csrc/lamb/fused_lamb_cuda_kernel.cu (0.19.6; mode 1, bias correction on)."""
    state["step"] = state.get("step", 0) + 1
    first = state.setdefault("first", torch.zeros_like(parameter))
    second = state.setdefault("second", torch.zeros_like(parameter))
    first.mul_(betas[0]).add_((1 - betas[0]) * gradient)
    second.mul_(betas[1]).add_((1 - betas[1]) * gradient * gradient)
    update = first / (second.sqrt() + eps) + weight_decay * parameter
    parameter_norm, update_norm = parameter.norm(), update.norm()
    ratio = (parameter_norm / update_norm).clamp(min_coeff, max_coeff) if parameter_norm != 0 and update_norm != 0 else 1.0
    step_size = lr * (1 - betas[1] ** state["step"]) ** 0.5 / (1 - betas[0] ** state["step"])
    parameter -= step_size * ratio * update


TORCH = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}
FORMULAS = {"lion": lion, "lamb": lamb}
ADAM = {"betas": [0.9, 0.999], "eps": 1e-8}
CASES = [
    ("adamw", {"lr": 1e-2, **ADAM, "weight_decay": 0.1}),
    ("adamw", {"lr": 3e-3, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.0}),
    ("adam", {"lr": 1e-2, **ADAM, "weight_decay": 0.0}),
    ("adam", {"lr": 1e-2, **ADAM, "weight_decay": 0.1}),
    ("sgd", {"lr": 1e-2, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}),
    ("sgd", {"lr": 1e-2, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.05, "nesterov": False}),
    ("sgd", {"lr": 1e-2, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.05, "nesterov": True}),
    ("adagrad", {"lr": 1e-2, "eps": 1e-10, "weight_decay": 0.0}),
    ("adagrad", {"lr": 1e-2, "eps": 1e-10, "weight_decay": 0.05}),
    ("lion", {"lr": 1e-3, "betas": [0.9, 0.99], "weight_decay": 0.1}),
    ("lion", {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0}),
    ("lamb", {"lr": 1e-2, **ADAM, "weight_decay": 0.01, "min_coeff": 0.01, "max_coeff": 10.0}),
    ("lamb", {"lr": 3e-3, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.0, "min_coeff": 0.01, "max_coeff": 0.3}),
    ("lamb", {"lr": 3e-3, **ADAM, "weight_decay": 0.1, "min_coeff": 2.0, "max_coeff": 10.0}),
]


def run(name: str, arguments: dict, start, gradients) -> list:
    """The vector after each step."""
    after = []
    if name in FORMULAS:
        parameter, state = start.double().clone(), {}
        for factor, gradient in zip(FACTORS, gradients):
            FORMULAS[name](parameter, state, gradient.double(), **(arguments | {"lr": arguments["lr"] * factor}))
            after.append(parameter.tolist())
        return after
    parameter = torch.nn.Parameter(start.clone())
    ready = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
    optimizer = TORCH[name]([parameter], foreach=False, **ready)
    for factor, gradient in zip(FACTORS, gradients):
        optimizer.param_groups[0]["lr"] = arguments["lr"] * factor
        parameter.grad = gradient.clone()
        optimizer.step()
        after.append(parameter.detach().tolist())
    return after


def short(values: list) -> list:
    """Nine digits hold an fp32 number exactly."""
    return [[float(f"{v:.9g}") for v in row] for row in values]


def write_optimizers(out: Path) -> None:
    torch.manual_seed(77)
    start, gradients = torch.randn(ELEMENTS), torch.randn(STEPS, ELEMENTS)
    document = {"elements": ELEMENTS, "steps": STEPS, "factors": FACTORS, "start": short([start.tolist()])[0], "gradients": short(gradients.tolist()),
                "cases": [{"optimizer": name, "arguments": arguments, "after": short(run(name, arguments, start, gradients))}
                          for name, arguments in CASES]}
    (out / "optimizers.json").write_text(json.dumps(document) + "\n")
