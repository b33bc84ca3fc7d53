"""Public test accuracy of a recipe over several runs, each with fresh noise, as rows for RESULTS.md.

python benchmarks/accuracy.py digits --runs 10
python benchmarks/accuracy.py digits --case epsilon=1 --case epsilon=0.5,optimizer.lr=0.3

A case changes settings of the recipe as `discreet train --set` does; each gives a row. Data and features are the same
in all, and read once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from torch import nn

from discreet import AdaptivePlan, EngineOptions, Plan, PublicData, Training
from discreet.data import Split
from discreet.recipes import Recipe, load_recipe


def accuracy(recipe: Recipe, split: Split, plan: Plan | AdaptivePlan) -> float:
    """One run: public accuracy at the end."""
    model = recipe.build_model()
    with tempfile.TemporaryDirectory() as folder:
        trained = Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            recipe.build_optimizer(model),
            split.train,
            public=PublicData(test=split.test),
            run=Path(folder) / "run",
            engine=EngineOptions(recipe.engine, noise=recipe.noise),
            averaging=recipe.averaging,
        ).run(evaluate_every=plan.steps)
    return trained.evaluations[-1].metrics["accuracy"]


def main() -> None:
    """Run every case and print its row of a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--case", action="append", metavar="KEY=VALUE,...", help="settings of a row; may be repeated")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    split = load_recipe(options.recipe).load_data(options.data)
    for case in options.case or [""]:
        recipe = load_recipe(options.recipe, case.split(",") if case else [])
        plan, found = recipe.plan(), []
        for _ in range(options.runs):
            found.append(accuracy(recipe, split, plan))
            print(case, found[-1], file=sys.stderr, flush=True)
        print(
            f"| {options.recipe} | {plan.guarantee().epsilon:.4f} | {plan.delta:g} | {options.runs} | "
            f"{statistics.mean(found):.4f} | {statistics.stdev(found):.4f} | {min(found):.4f} | {max(found):.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
