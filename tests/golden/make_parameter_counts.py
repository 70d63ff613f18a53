#!/usr/bin/env python3
"""Writes parameter_counts.tsv: what transformers builds from each config of model_configs.jsonl, on the meta device.

Needs the versions of requirements-parameters.txt. One row a model: figures, and a hash of all names and shapes in the order of
named_parameters(). T5 configs that untie the head get the head that their checkpoints have and transformers 5 ties.
"""
import json
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent
# A config that names no architecture is counted as the bare model of its family.
BARE = {"deberta-v2": "DebertaV2Model"}


def fnv1a(text: str) -> str:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def build(config: dict):
    values = dict(config)
    model_type = values.pop("model_type")
    values.pop("quantization_config", None)
    architecture = (config.get("architectures") or [BARE.get(model_type)])[0]
    with torch.device("meta"):
        return getattr(transformers, architecture)(transformers.AutoConfig.for_model(model_type, **values))


def row(name: str, config: dict) -> list:
    model = build(config)
    tensors = [(n, list(p.shape), p.numel(), p.requires_grad) for n, p in model.named_parameters()]
    twice = sum(p.numel() for _, p in model.named_parameters(remove_duplicate=False))
    if config["model_type"] == "t5" and config.get("tie_word_embeddings") is False:
        head = model.get_output_embeddings().weight
        tensors.append(("lm_head.weight", list(head.shape), head.numel(), True))
    largest, owner = 0, ""
    for module_name, module in model.named_modules(remove_duplicate=False):
        own = sum(p.numel() for p in module.parameters(recurse=False))
        if own > largest:
            largest, owner = own, module_name
    listing = "".join(f"{n} {s}\n" for n, s, _, _ in tensors)
    return [name, sum(t[2] for t in tensors), sum(t[2] for t in tensors if t[3]), twice, len(tensors), largest, owner,
            fnv1a(listing)]


def main() -> None:
    lines = [json.loads(line) for line in (HERE / "model_configs.jsonl").read_text().splitlines()]
    with open(HERE / "parameter_counts.tsv", "w") as out:
        out.write(f"# torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}; written by make_parameter_counts.py\n")
        out.write("model\ttotal\ttrainable\twith_tied_twice\ttensors\tlargest_module\tlargest_module_name\tnames_fnv1a\n")
        for line in lines:
            out.write("\t".join(map(str, row(line["name"], line["config"]))) + "\n")


if __name__ == "__main__":
    main()
