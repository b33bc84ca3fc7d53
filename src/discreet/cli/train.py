"""`discreet train`: from a recipe to a published folder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.accounting_options import JsonOption

if TYPE_CHECKING:
    from discreet.clipping import Criterion


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe by name, or the path of a .yaml file.")] = "digits",
    data: Annotated[Path | None, typer.Option("--data", help="Where the recipe's data is.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The budget; overrides the recipe.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Its delta; overrides the recipe.")] = None,
    population: Annotated[float | None, typer.Option("--population", help="Declared public data set size.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to publish to [RECIPE-private].")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, overrides the recipe.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; charge and train nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train on private data, publish the model, and hand over a proof of what it gives away."""
    from discreet.publication.folder import check_target, publish
    from discreet.recipes import load_recipe
    from discreet.training import Training

    given = {"epsilon": epsilon, "delta": delta, "population": population}
    chosen = load_recipe(recipe, settings or (), {key: value for key, value in given.items() if value is not None})
    target = out or Path(f"{Path(recipe).stem}-private")
    check_target(target)
    plan = chosen.plan()
    if dry_run:
        typer.echo(plan.model_dump_json(indent=2))
        return
    split = chosen.load_data(data)
    model = chosen.build_model()
    training = Training(
        plan,
        model,
        _criterion(split.train[1].is_floating_point()),
        chosen.build_optimizer(model),
        split.train,
        public_test=split.test,
        run_dir=target.with_name(target.name + ".run"),
    )
    trained = training.run(evaluate_every=chosen.evaluate_every)
    guarantee = publish(trained, target)
    metrics = trained.evaluations[-1].metrics if trained.evaluations else {}
    if as_json:
        facts = {"folder": str(target), "epsilon": guarantee.epsilon, "delta": guarantee.delta}
        typer.echo(json.dumps({**facts, "steps": trained.charged_steps, "public_test": dict(metrics)}))
        return
    accuracy = f", public test accuracy {metrics['accuracy']:.1%}" if "accuracy" in metrics else ""
    typer.echo(f"{target}: certified epsilon {_up(guarantee.epsilon)} at delta {guarantee.delta:g}{accuracy}")


def _criterion(regression: bool) -> Criterion:
    from torch import nn

    return nn.MSELoss() if regression else nn.CrossEntropyLoss()


def _up(epsilon: float) -> str:
    """Four digits after the point, never below the bound."""
    return f"{math.ceil(epsilon * 1e4) / 1e4:.4f}"
