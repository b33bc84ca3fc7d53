"""What budgets of single units do to accuracy and time: full-batch steps on a third of digits, as table rows.

python benchmarks/individual.py [--seeds 3]

All arms meet the same budget. Clip norms and learning rates are from one grid; the table takes for each arm the pair
that is best on average in hindsight, which favours no arm. Time is processor time of all steps.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch

from discreet.ledger.units_spent import UnitsSpent
from discreet.plan import IndividualSampling, NoSampling, Plan, Sampling
from discreet.randomness import TestStream
from discreet.recipes import load_recipe
from discreet.training import RunOptions, Training

EPSILON, ROWS = 4.0, 480
SETTINGS = ((1.0, 2.0), (1.0, 6.0), (4.0, 0.5), (4.0, 1.5))
"""Clip norms and learning rates."""
ARMS: dict[str, tuple[Sampling, int, str]] = {
    "everyone, 10 steps": (NoSampling(), 10, "auto"),
    "everyone, 20 steps": (NoSampling(), 20, "auto"),
    "everyone, 20 steps, engine exact": (NoSampling(), 20, "exact"),
    "own budgets, 20 steps, worth 10": (IndividualSampling(period=20, full=10), 20, "auto"),
    "own budgets, 20 steps, worth 5": (IndividualSampling(period=20, full=5), 20, "auto"),
}


def run(arm: str, clip_norm: float, rate: float, seed: int) -> tuple[float, float, float]:
    """Accuracy on the public test rows, processor seconds, and the share of all budgets that was used."""
    sampling, steps, engine = ARMS[arm]
    split = load_recipe("digits").load_data(None)
    inputs, targets = (part[:ROWS] for part in split.train)
    plan = Plan.make(sampling, population=ROWS, steps=steps, delta=1e-5, clip_norm=clip_norm).calibrate(EPSILON)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(inputs[0].numel(), 10))
    torch.nn.init.zeros_(model[1].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    own = isinstance(sampling, IndividualSampling)
    with tempfile.TemporaryDirectory() as folder:
        where = RunOptions(f"{folder}/run", stream=TestStream(seed), keep_spent=own)
        training = Training(
            plan, model, torch.nn.CrossEntropyLoss(), optimizer, (inputs, targets), run=where, engine=engine
        )
        begun = time.process_time()
        training.run(progress=False)
        seconds = time.process_time() - begun
        used = float(np.mean(UnitsSpent.load(training.folder.individual).shares)) if own else 1.0
    model.eval()
    with torch.no_grad():
        right = (model(split.test[0]).argmax(1) == split.test[1]).double().mean()
    return float(right), seconds, used


def row(arm: str, seeds: Sequence[int]) -> str:
    """One row of the table."""
    found = defaultdict(list)
    for setting in SETTINGS:
        for seed in seeds:
            found[setting].append(run(arm, *setting, seed))
    clip_norm, rate = best = max(found, key=lambda setting: statistics.mean(one[0] for one in found[setting]))
    accuracy = [100 * one[0] for one in found[best]]
    middle = statistics.median(one[1] for ones in found.values() for one in ones)
    used = statistics.mean(one[2] for one in found[best])
    seen = f"{statistics.mean(accuracy):.1f} ({min(accuracy):.1f} to {max(accuracy):.1f})"
    return f"| {arm} | {seen} | {clip_norm:g}, {rate:g} | {used:.0%} | {middle:.1f} |"


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seeds", type=int, default=3)
    seeds = range(asked.parse_args().seeds)
    torch.set_num_threads(1)
    print(f"epsilon {EPSILON:g}, delta 1e-5, {ROWS} rows\n")
    print("| arm | accuracy, % | clip norm, learning rate | budgets used | processor seconds |\n|---|---|---|---|---|")
    for arm in ARMS:
        print(row(arm, seeds), flush=True)


if __name__ == "__main__":
    main()
