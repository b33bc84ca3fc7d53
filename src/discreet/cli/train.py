"""`discreet train`: from a recipe to a published folder."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli import prices
from discreet.cli.accounting_options import JsonOption
from discreet.cli.messages import spoken
from discreet.cli.plan import HoldoutOption
from discreet.core.errors import InputError

if TYPE_CHECKING:
    from discreet.cli.job import Job
    from discreet.core.guarantee import Guarantee
    from discreet.training import Trained


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe by name, a .yaml file, or a table (.csv, .parquet) [digits].")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Where the recipe's data is.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Of a table: the column to predict, or labels A,B,C.")
    ] = None,
    schema: Annotated[Path | None, typer.Option("--schema", help="Of a table: its schema, a .yaml file.")] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Of a table: the column that says whose a row is, or row.")
    ] = None,
    test: Annotated[Path | None, typer.Option("--test", help="Of a table: another one, declared public.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The budget; overrides the recipe.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Its delta; overrides the recipe.")] = None,
    population: Annotated[float | None, typer.Option("--population", help="Declared public data set size.")] = None,
    holdout: HoldoutOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to publish to [RECIPE-private].")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, overrides the recipe.")] = None,
    dataset_id: Annotated[str, typer.Option("--dataset-id", help="The data set's name in the shared ledger.")] = "",
    ledger: Annotated[
        str | None, typer.Option("--ledger", envvar="DISCREET_LEDGER", help="Shared ledger: path or postgresql://...")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Go on with the run in this folder (OUT.run).")
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="With --resume: publish what there is, train no more.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; charge and train nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train on private data, publish the model, and hand over a proof of what it gives away."""
    from discreet.cli.job import Job
    from discreet.cli.table import TableOptions

    options = TableOptions(schema, target, unit, test)
    given = {"epsilon": epsilon, "delta": delta, "population": population, "holdout": holdout}
    overrides = {key: value for key, value in given.items() if value is not None}
    if resume is None:
        if finish:
            raise InputError("--finish publishes an interrupted run; name it with --resume DIR")
        job = Job.new(recipe or "digits", data, out, settings or [], overrides, options)
    else:
        if recipe or data or out or settings or dataset_id or overrides or options.given:
            raise InputError("--resume goes on with the run as it was started; leave out recipe, data and settings")
        job = Job.resumed(resume)
    if dry_run:
        typer.echo(job.recipe.plan().model_dump_json(indent=2))
        return
    if not as_json:
        for line in prices.of_recipe(job.recipe):
            typer.echo(line, err=True)
    with spoken():
        guarantee, trained = job.run(ledger=ledger, dataset_id=dataset_id, finish=finish)
    _tell(job, guarantee, trained, as_json=as_json)


def _tell(job: Job, guarantee: Guarantee, trained: Trained, *, as_json: bool) -> None:
    """What came out, in one line or as JSON."""
    metrics = trained.evaluations[-1].metrics if trained.evaluations else {}
    if as_json:
        facts = {"folder": str(job.target), "epsilon": guarantee.epsilon, "delta": guarantee.delta}
        bought = [asdict(one) for one in trained.bought]
        facts |= {"steps": trained.charged_steps, "public_test": dict(metrics), "bought": bought}
        typer.echo(json.dumps(facts))
        return
    if trained.ended is not None:
        typer.echo(f"the run ended after {trained.charged_steps} steps: {trained.ended}", err=True)
    for one in prices.last_of_each(trained.bought):
        typer.echo(f"{one.metric.replace('_', ' ')} {one.value:.4g} +/- {one.deviation:.2g}, bought on private rows")
    accuracy = f", public test accuracy {metrics['accuracy']:.1%}" if "accuracy" in metrics else ""
    typer.echo(f"{job.target}: certified epsilon {_up(guarantee.epsilon)} at delta {guarantee.delta:g}{accuracy}")


def _up(epsilon: float) -> str:
    """Four digits after the point, never below the bound."""
    return f"{math.ceil(epsilon * 1e4) / 1e4:.4f}"
