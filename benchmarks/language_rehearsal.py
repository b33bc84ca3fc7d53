"""Many settings for private perplexity, compared cheaply on the public half alone.

python benchmarks/language_rehearsal.py --data DIR --models models --out tuning.jsonl lora steps=16 rate=0.01

Each call is a run of the way of `language_accuracy.py` with what is changed, with an eighth of the rows in each step:
sums are of rows clipped by the engine that trains, and the mean of an eighth of the batch gets the noise that the mean
of the whole batch would have. Rows are public, so the noise protects nobody: it is there because it decides which
settings are good. An eighth of the rows makes the mean a little rougher than in a real run. Measured on 500 reviews of
the public half that are not trained on; the model has seen a part of these when it was pretrained, in all runs alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from language_accuracy import DELTA, WAYS, Case, Way, build, measured, optimizer_of, slope
from language_halves import rows
from torch import Tensor, nn

import discreet
from discreet.clipping import ENGINES, Chunk, Clip
from discreet.methods import tell_noise

SHARE, CHUNK, MEASURED = 8, 64, 500
POPULATION = 12502
"""Of the private half, whose plan is rehearsed."""


def changed(way: Way, changes: Sequence[str]) -> Way:
    """A way with some of its fields changed, each said as name=value."""
    kinds = {"batch": int, "steps": int, "optimizer": str}
    found = {name: kinds.get(name, float)(value) for name, _, value in (one.partition("=") for one in changes)}
    return replace(way, **found)


def multiplier(way: Way, epsilon: float) -> float:
    """The noise multiplier of the plan on the private half."""
    size = {"population": POPULATION, "batch": way.batch, "steps": way.steps}
    plan = discreet.Plan.poisson(**size, clip_norm=way.clip, delta=DELTA).calibrate(epsilon=epsilon)
    return plan.multipliers[0][0]


def chunks(count: int, total: int, draws: np.random.Generator) -> Iterator[Tensor]:
    """Places of `count` rows among `total`, some at a time."""
    return iter(torch.from_numpy(draws.choice(total, count, replace=False)).split(CHUNK))


def rehearse(case: Case, way: Way, given: tuple[Tensor, Tensor], models: Path) -> nn.Module:
    """The model after the steps of a way, with rows and noise of a public seed."""
    model, loss = build(case, models)
    std = multiplier(way, case.epsilon or 0) * way.clip / way.batch
    optimizer = optimizer_of(model, way, 0.0, std)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: slope(step, way.steps))
    weights = {name: one for name, one in model.named_parameters() if one.requires_grad}
    draws, noise = np.random.default_rng(case.seed), torch.Generator().manual_seed(case.seed)
    clip, count = Clip(way.clip, 2.0**-30), way.batch // SHARE
    engine = ENGINES["bookkeeping"].clipped_sum
    model.train()
    for _ in range(way.steps):
        sums = {name: torch.zeros_like(one) for name, one in weights.items()}
        for chosen in chunks(count, len(given[1]), draws):
            for name, found in engine(model, loss, Chunk(given[0][chosen], given[1][chosen]), clip).items():
                sums[name] += found
        for name, one in weights.items():
            one.grad = sums[name] / count + std * torch.randn(one.shape, generator=noise)
        tell_noise(optimizer, std)
        optimizer.step()
        scheduler.step()
    return model


def main() -> None:
    """Take the run, and add it to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["lora", "full"])
    parser.add_argument("changes", nargs="*", help="batch=, steps=, rate=, clip=, optimizer=")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    case = Case("perplexity", options.how, options.epsilon, options.seed)
    way = changed(WAYS["perplexity", options.how], options.changes)
    given = rows("perplexity", options.data, options.models, "others")
    inputs, targets = rows("perplexity", options.data, options.models, "held out")
    begun = time.process_time()
    model = rehearse(case, way, given, options.models)
    found = measured(case, model, (inputs[:MEASURED], targets[:MEASURED]))
    row = {
        **asdict(case),
        **asdict(way),
        "rehearsed": round(found, 3),
        "CPU seconds": round(time.process_time() - begun),
    }
    with options.out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row))


if __name__ == "__main__":
    main()
