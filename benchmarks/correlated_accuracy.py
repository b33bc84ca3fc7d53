"""What correlated noise does to accuracy: paired seeds beside DP-SGD with and without momentum, as table rows.

python benchmarks/correlated_accuracy.py --data DIR --results FILE [--table]

Every arm has the same batches in expectation, the same steps and the same budget, and is measured on the public test
rows after its last step. Learning rates are from one grid per data set; the table takes for each arm the one that is
best on average in hindsight, which favours no arm. A run that FILE holds already is not repeated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discreet.accounting.answers.bands import best_bands
from discreet.core.adjacency import Adjacency
from discreet.plan import Plan, Sampling
from discreet.randomness import TestStream
from discreet.recipes import load_recipe
from discreet.recipes.sections.bands import in_turns
from discreet.training import PublicData, RunOptions, Training

EPSILONS = (1.0, 3.0, 8.0)
ARMS = ("DP-SGD", "momentum 0.9", "correlated noise")


@dataclass(frozen=True, slots=True)
class Case:
    """A recipe's data, model and clip norm with minibatches: the rate of a step, the steps, and rates of learning."""

    rate: float
    steps: int
    rates: tuple[float, ...]
    folder: str | None = None


CASES = {
    "digits": Case(0.1, 120, (0.5, 1.0, 2.0, 4.0)),
    "adult": Case(0.01, 600, (0.25, 0.5, 1.0, 2.0), ""),
    "mnist": Case(0.01, 600, (5.0, 10.0, 20.0, 40.0), "mnist"),
    "imdb": Case(0.02, 300, (10.0, 30.0, 60.0, 120.0), ""),
}


@dataclass(frozen=True, slots=True)
class Task:
    """Rows, prepared once: features in front of the last layer where the recipe has fixed ones."""

    recipe: Any
    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    def model(self) -> nn.Module:
        """What is trained."""
        built = self.recipe.build_model()
        return built[-1] if isinstance(built, nn.Sequential) else built


def task(name: str, data: Path) -> Task:
    """The rows of a data set."""
    recipe, folder = load_recipe(name), CASES[name].folder
    split = recipe.load_data(None if folder is None else data / folder)
    model = recipe.build_model()
    front = model[:-1] if isinstance(model, nn.Sequential) else nn.Identity()
    with torch.no_grad():
        train, test = ((torch.cat([front(part) for part in x.split(1000)]), y) for x, y in (split.train, split.test))
    return Task(recipe, train, test)


def drawn(arm: str, case: Case, epsilon: float, delta: float) -> Sampling:
    """How the batches of an arm are drawn."""
    bands = "auto" if arm == "correlated noise" else 1
    return in_turns(bands, case.rate, case.steps, epsilon, delta, Adjacency.ADD_REMOVE)


def accuracy(one: Task, case: Case, arm: str, epsilon: float, lr: float, seed: int) -> float:
    """Of one run, on the test rows."""
    recipe, momentum = one.recipe, 0.9 if arm.startswith("momentum") else 0.0
    plan = Plan.make(
        drawn(arm, case, epsilon, recipe.delta),
        population=recipe.population,
        steps=case.steps,
        clip_norm=recipe.clip_norm,
        delta=recipe.delta,
    ).calibrate(epsilon)
    torch.manual_seed(seed)
    model = one.model()
    with tempfile.TemporaryDirectory() as folder:
        training = Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            torch.optim.SGD(model.parameters(), lr=lr * (1 - momentum), momentum=momentum),
            one.train,
            public=PublicData(test=one.test),
            run=RunOptions(Path(folder) / "run", stream=TestStream(seed)),
        )
        return training.run(progress=False, evaluate_every=case.steps).evaluations[-1].metrics["accuracy"]


def wanted(seeds: int) -> Iterator[tuple[str, str, float, float, int]]:
    """Every run, so that each seed is whole before the next."""
    for seed in range(seeds):
        for name, case in CASES.items():
            for epsilon in EPSILONS:
                for arm in ARMS:
                    for lr in case.rates:
                        yield name, arm, epsilon, lr, seed


def rows(found: dict[tuple[str, str, float, float, int], float]) -> Iterator[str]:
    """The table: mean and deviation over seeds at the best learning rate of each arm."""
    yield "| data | epsilon | bands | " + " | ".join(ARMS) + " |"
    yield "|---|---|---|" + "---|" * len(ARMS)
    for name, case in CASES.items():
        delta = load_recipe(name).delta
        for epsilon in EPSILONS:
            cells = []
            for arm in ARMS:
                by_rate = defaultdict(list)
                for (data, way, at, lr, _), value in found.items():
                    if (data, way, at) == (name, arm, epsilon):
                        by_rate[lr].append(100 * value)
                if by_rate:
                    lr, best = max(by_rate.items(), key=lambda item: statistics.mean(item[1]))
                    spread = statistics.stdev(best) if len(best) > 1 else 0.0
                    cells.append(f"{statistics.mean(best):.2f} ± {spread:.2f} (lr {lr:g})")
            bands = len(best_bands(case.rate, case.steps, epsilon, delta).coefficients)
            yield f"| {name} | {epsilon:g} | {bands} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with adult, imdb and mnist in it")
    parser.add_argument("--results", type=Path, required=True, help="lines of JSON, one for a run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--table", action="store_true", help="only show what is there")
    options = parser.parse_args()
    found = {}
    if options.results.exists():
        for line in options.results.read_text().splitlines():
            *key, value = json.loads(line)
            found[tuple(key)] = value
    tasks: dict[str, Task] = {}
    for key in () if options.table else wanted(options.seeds):
        if key not in found:
            name, arm, epsilon, lr, seed = key
            if name not in tasks:
                tasks[name] = task(name, options.data)
            found[key] = accuracy(tasks[name], CASES[name], arm, epsilon, lr, seed)
            with options.results.open("a") as file:
                file.write(json.dumps([*key, found[key]]) + "\n")
    print("\n".join(rows(found)))


if __name__ == "__main__":
    main()
