"""Ways to find a learning rate on private data, at one certified epsilon, on the digits of scikit-learn, as table rows.

python benchmarks/tuning.py --seeds 10 --epsilon 1

Every arm trains the recipe `digits` within the whole budget, and is measured on its public test part. Searches draw
from the same candidates. `one candidate` is what a run without any search gives: on average over the candidates, and
for the best of them in hindsight, which nobody can know privately.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import torch

from discreet.jobs.command_line import CommandLine
from discreet.jobs.tune import SearchJob, Wanted
from discreet.recipes import load_recipe
from discreet.recipes.assemble import ready_of
from discreet.recipes.sections.search import with_settings
from discreet.training import EngineOptions, PublicData, Training

QUICK = ["engine=bookkeeping", "noise=fast"]


def accuracies(grid: str, epsilon: float, seeds: int) -> dict[float, list[float]]:
    """Test accuracies of single runs by learning rate."""
    recipe = load_recipe("digits", QUICK, {"epsilon": epsilon})
    split, plan, found = recipe.load_data(None), recipe.plan(), {}
    for value in map(float, grid.split(",")):
        candidate, found[value] = with_settings(recipe, {"optimizer.lr": value}), []
        for _ in range(seeds):
            model = candidate.build_model()
            with tempfile.TemporaryDirectory() as folder:
                training = Training(
                    plan,
                    model,
                    torch.nn.CrossEntropyLoss(),
                    candidate.build_optimizer(model),
                    split.train,
                    public=PublicData(test=split.test),
                    run=Path(folder) / "run",
                    engine=EngineOptions(recipe.engine),
                )
                found[value].append(training.run(progress=False).evaluations[-1].metrics["accuracy"])
    return found


def searched(wanted: Wanted, holdout: str | None, epsilon: float, seeds: int) -> list[float]:
    """Test accuracies of the winners of as many searches."""
    found = []
    given = {"epsilon": epsilon} | ({} if holdout is None else {"holdout": holdout})
    for _ in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            job = SearchJob.new(CommandLine("digits", None, Path(folder) / "out", QUICK, given), wanted)
            ready = ready_of(job.recipe, job.recipe.load_data(job.data))
            trained = job.tuning(ready, ledger=None, dataset_id="").run()
            found.append(trained.evaluations[-1].metrics["accuracy"])
    return found


def row(name: str, values: list[float]) -> None:
    """Mean and standard error of the mean, in percent."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    print(f"| {name} | {100 * statistics.mean(values):.1f} +/- {100 * error:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--grid", default="0.02,0.1,0.5,2")
    parser.add_argument("--trials", type=float, nargs="*", default=[4.0, 8.0])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"epsilon {options.epsilon:g}, learning rates {options.grid}, {options.seeds} seeds")
    alone = accuracies(options.grid, options.epsilon, options.seeds)
    row("one candidate, on average", [value for values in alone.values() for value in values])
    best = max(alone, key=lambda value: statistics.mean(alone[value]))
    row(f"one candidate, the best in hindsight ({best:g})", alone[best])
    grid = [f"optimizer.lr={options.grid}"]
    for trials in options.trials:
        wanted = Wanted("random_stopping", grid, trials=trials)
        row(f"random stopping, {trials:g} runs on average", searched(wanted, "10%", options.epsilon, options.seeds))
    row("parts", searched(Wanted("parts", grid), None, options.epsilon, options.seeds))


if __name__ == "__main__":
    main()
