"""A table larger than its memory: how much memory a training needs, and how fast its steps are beside rows in memory.

    python benchmarks/tables.py [--gigabytes 2] [--steps 20] [--folder DIR]

Writes a CSV file of 12 numbers and 7 categories a row, trains on it through the private file in one process, and on the
same encoded rows held in memory in another. Memory is the peak of the resident set above what the process holds once
the library is loaded; pages of the file count while they are mapped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

NUMBERS, CATEGORIES = 12, 7
_AT_ONCE = 200_000


def write(folder: Path, gigabytes: float) -> None:
    """big.csv, the same rows over and over, and big.yaml."""
    import yaml

    generator = np.random.default_rng(0)
    numbers, codes = generator.random((_AT_ONCE, NUMBERS)), generator.integers(0, 10, (_AT_ONCE, CATEGORIES))
    answers = (numbers[:, 0] + numbers[:, 1] > 1).astype(int)
    lines = [
        ",".join([*(f"{x:.8f}" for x in row), *(f"cat_{code}" for code in kinds), str(answer)])
        for row, kinds, answer in zip(numbers, codes, answers, strict=True)
    ]
    text = "\n".join(lines) + "\n"
    times = max(1, round(gigabytes * 1e9 / len(text)))
    columns = {f"n{i}": {"type": "number", "low": 0, "high": 1} for i in range(NUMBERS)}
    columns |= {f"c{i}": {"type": "category", "categories": [f"cat_{j}" for j in range(10)]} for i in range(CATEGORIES)}
    columns |= {"y": {"type": "boolean"}}
    with (folder / "big.csv").open("w") as file:
        file.write(",".join(columns) + "\n")
        for _ in range(times):
            file.write(text)
    facts = {"unit": "row", "population": _AT_ONCE * times, "target": "y", "columns": columns}
    (folder / "big.yaml").write_text(yaml.safe_dump(facts))


def measured(folder: Path, steps: int, *, in_memory: bool) -> dict[str, float]:
    """Train in this process, and say what it took."""
    import torch
    from torch import nn

    from discreet import Training
    from discreet.data.tables import Encoder, load_schema, private_table
    from discreet.recipes import Recipe
    from discreet.recipes.table_recipe import table_recipe

    schema = load_schema(folder / "big.yaml")
    encoder, recipe = Encoder(schema), Recipe.model_validate(table_recipe(schema, 1.0, 1e-9))
    recipe = recipe.model_copy(update={"steps": steps, "rate": 10_000 / recipe.population, "averaging": None})
    start, before = time.perf_counter(), _kibibytes("VmRSS")
    with private_table(folder / "big.csv", encoder, folder) as table, tempfile.TemporaryDirectory(dir=folder) as runs:
        rows: object = table.rows
        count, read = len(table.rows), time.perf_counter() - start
        if in_memory:
            held = [table.rows.gather(np.arange(i, min(i + 65536, count))) for i in range(0, count, 65536)]
            rows = tuple(torch.cat(parts) for parts in zip(*held, strict=True))
        model = recipe.build_model()
        optimizer = recipe.build_optimizer(model)
        training = Training(
            recipe.plan(),
            model,
            nn.CrossEntropyLoss(),
            optimizer,
            rows,
            run=Path(runs) / "run",
            engine="bookkeeping",
        )
        start = time.process_time()
        training.run(progress=False)
        spent = time.process_time() - start
    peak = (_kibibytes("VmHWM") - before) / 2**20
    return {"rows": count, "read_seconds": read, "cpu_seconds_a_step": spent / steps, "peak_gibibytes": peak}


def _kibibytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--one", choices=["stored", "in memory"])
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measured(given.folder, given.steps, in_memory=given.one != "stored")))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        write(Path(name), given.gigabytes)
        print(f"{os.path.getsize(Path(name) / 'big.csv') / 1e9:.2f} GB of CSV")
        found = {}
        for who in ("stored", "in memory"):
            command = [sys.executable, __file__, "--one", who, "--folder", name, "--steps", str(given.steps)]
            found[who] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(who, {key: round(value, 3) for key, value in found[who].items()})
        speed = found["in memory"]["cpu_seconds_a_step"] / found["stored"]["cpu_seconds_a_step"]
        print(f"steps from the file are {speed:.0%} as fast as in memory")


if __name__ == "__main__":
    main()
