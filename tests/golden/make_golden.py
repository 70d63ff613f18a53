#!/usr/bin/env python3
"""Makes the reference numbers of this folder with PyTorch on the CPU in fp32, or compares new ones with those committed.

    make_golden.py OUT            writes all into the folder OUT
    make_golden.py --check DIR    makes them again in a scratch folder and compares them with DIR; exit 1 where they differ

README.md beside this file says what each file holds.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

from golden_models import write_models
from golden_optimizers import write_optimizers
from golden_schedules import write_schedules

# Other processors sum in another order: the numbers agree to rounding, not to the bit.
RELATIVE, ABSOLUTE = 2e-5, 2e-7


def numbers(document, where: str = ""):
    """(place, value) of every leaf of a JSON document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from numbers(value, f"{where}/{key}")
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from numbers(value, f"{where}/{index}")
    else:
        yield where, document


def differ(a, b) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) > RELATIVE * max(abs(a), abs(b)) + ABSOLUTE
    return a != b


def compare_json(old: Path, new: Path) -> list[str]:
    before, after = dict(numbers(json.loads(old.read_text()))), dict(numbers(json.loads(new.read_text())))
    if before.keys() != after.keys():
        return [f"{old}: other keys"]
    return [f"{old}{k}: committed {before[k]}, now {after[k]}" for k in before if differ(before[k], after[k])]


def compare_tensors(old: Path, new: Path) -> list[str]:
    from safetensors.torch import load_file
    before, after = load_file(old), load_file(new)
    if before.keys() != after.keys():
        return [f"{old}: other tensors"]
    return [f"{old}: {name}" for name in before
            if (before[name] - after[name]).norm() > RELATIVE * before[name].norm() + ABSOLUTE]


def compare(committed: Path, made: Path) -> list[str]:
    problems = []
    for new in sorted(p for p in made.rglob("*") if p.is_file()):
        old = committed / new.relative_to(made)
        if not old.is_file():
            problems.append(f"{old}: missing")
        elif new.suffix == ".json":
            problems += compare_json(old, new)
        elif new.suffix == ".safetensors":
            problems += compare_tensors(old, new)
        elif old.read_bytes() != new.read_bytes():
            problems.append(f"{old}: other bytes")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, metavar="OUT")
    parser.add_argument("--check", type=Path, metavar="DIR")
    a = parser.parse_args()
    if (a.out is None) == (a.check is None):
        parser.error("one of OUT and --check DIR is needed")
    with tempfile.TemporaryDirectory() as scratch:
        out = a.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        write_models(out)
        write_optimizers(out)
        write_schedules(out)
        problems = compare(a.check, out) if a.check else []
    print("\n".join(problems[:20]))
    print(f"{len(problems)} differences" if a.check else f"written to {a.out}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
