"""Ways to fine-tune, compared on the public half alone: trained on all of it but 2,000 reviews, measured on these.

python benchmarks/language_tuning.py --data DIR --models models --out tuning.jsonl lora batch=1024 steps=8
python benchmarks/language_tuning.py --data DIR --models models --out tuning.jsonl head --epsilon 1

Each call is a run: the way of `language_accuracy.py` with what is changed. Neither private nor test rows are read.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
from language_accuracy import WAYS, Case, reached


def main() -> None:
    """Take the run, and add it to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["head", "lora", "full"])
    parser.add_argument("changes", nargs="*", help="batch=, steps=, rate=, clip=, head_rate=, body_clip=")
    parser.add_argument("--task", default="sentiment")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    changes = {name: float(value) for name, _, value in (one.partition("=") for one in options.changes)}
    whole = {name: int(changes.pop(name)) for name in ("batch", "steps") if name in changes}
    way = replace(WAYS[options.task, options.how], **whole, **changes)
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        case = Case(options.task, options.how, options.epsilon, 0)
        found = reached(case, options.data, options.models, Path(folder), way, ("others", "held out"))
    row = {**asdict(case), **asdict(way), "found": round(found, 5), "CPU seconds": round(time.process_time() - begun)}
    with options.out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row))


if __name__ == "__main__":
    main()
