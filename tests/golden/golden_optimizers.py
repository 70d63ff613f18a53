"""Optimizers on one vector: torch's own, and Lion and LAMB as their papers write them, in double precision."""
import json
from pathlib import Path

import torch

ELEMENTS, STEPS = 37, 20


def lion(parameter, state, gradient, lr, betas, weight_decay):
    """Chen et al., arXiv 2302.06675, algorithm 2."""
    momentum = state.setdefault("momentum", torch.zeros_like(parameter))
    direction = torch.sign(betas[0] * momentum + (1 - betas[0]) * gradient)
    parameter -= lr * (direction + weight_decay * parameter)
    momentum.mul_(betas[1]).add_((1 - betas[1]) * gradient)


def lamb(parameter, state, gradient, lr, betas, eps, weight_decay, min_coeff, max_coeff):
    """You et al., arXiv 1904.00962, algorithm 2 with bias correction; the trust ratio is clamped as DeepSpeed's is."""
    state["step"] = state.get("step", 0) + 1
    first = state.setdefault("first", torch.zeros_like(parameter))
    second = state.setdefault("second", torch.zeros_like(parameter))
    first.mul_(betas[0]).add_((1 - betas[0]) * gradient)
    second.mul_(betas[1]).add_((1 - betas[1]) * gradient * gradient)
    update = (first / (1 - betas[0] ** state["step"])) / ((second / (1 - betas[1] ** state["step"])).sqrt() + eps)
    update = update + weight_decay * parameter
    trust = (parameter.norm() / update.norm()).clamp(min_coeff, max_coeff) if parameter.norm() > 0 and update.norm() > 0 else 1.0
    parameter -= lr * trust * update


TORCH = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}
PAPERS = {"lion": lion, "lamb": lamb}
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
    ("lamb", {"lr": 1e-2, **ADAM, "weight_decay": 0.01, "min_coeff": 0.01, "max_coeff": 10.0}),
]


def run(name: str, arguments: dict, start, gradients) -> list:
    """The vector after each step."""
    after = []
    if name in PAPERS:
        parameter, state = start.double().clone(), {}
        for gradient in gradients:
            PAPERS[name](parameter, state, gradient.double(), **arguments)
            after.append(parameter.tolist())
        return after
    parameter = torch.nn.Parameter(start.clone())
    ready = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
    optimizer = TORCH[name]([parameter], foreach=False, **ready)
    for gradient in gradients:
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
    document = {"elements": ELEMENTS, "steps": STEPS, "start": short([start.tolist()])[0], "gradients": short(gradients.tolist()),
                "cases": [{"optimizer": name, "arguments": arguments, "after": short(run(name, arguments, start, gradients))}
                          for name, arguments in CASES]}
    (out / "optimizers.json").write_text(json.dumps(document) + "\n")
