"""Public test accuracy of a recipe over several runs, each with fresh noise, as a row for RESULTS.md.

python benchmarks/accuracy.py digits --epsilon 1 --runs 10
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from torch import nn

from discreet import Training
from discreet.recipes import load_recipe


def main() -> None:
    """Run the recipe and print one row of a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()

    recipe = load_recipe(options.recipe, overrides={"epsilon": options.epsilon} if options.epsilon else {})
    plan, split = recipe.plan(), recipe.load_data(options.data)
    accuracies = []
    for _ in range(options.runs):
        model = recipe.build_model()
        with tempfile.TemporaryDirectory() as folder:
            trained = Training(
                plan,
                model,
                nn.CrossEntropyLoss(),
                recipe.build_optimizer(model),
                split.train,
                public_test=split.test,
                run_dir=Path(folder) / "run",
                engine=recipe.engine,
                noise=recipe.noise,
                averaging=recipe.averaging,
            ).run(evaluate_every=plan.steps)
        accuracies.append(trained.evaluations[-1].metrics["accuracy"])
    epsilon = plan.guarantee().epsilon
    print(
        f"| {options.recipe} | {epsilon:.4f} | {plan.delta:g} | {options.runs} | {statistics.mean(accuracies):.4f} | "
        f"{statistics.stdev(accuracies):.4f} | {min(accuracies):.4f} | {max(accuracies):.4f} |"
    )


if __name__ == "__main__":
    main()
