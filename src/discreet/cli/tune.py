"""`discreet tune`: a search for settings on private data, as one charge, and a published folder of the best run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import prices
from discreet.cli.accounting_options import JsonOption
from discreet.cli.figures import rounded_up
from discreet.cli.messages import spoken
from discreet.cli.plan import HoldoutOption

if TYPE_CHECKING:
    from discreet.plan import Plan
    from discreet.training import Trained

_SELDOM = 0.01


def tune(
    recipe: Annotated[str, typer.Argument(help="A recipe by name, or the path of a .yaml file.")],
    trials: Annotated[float, typer.Option("--trials", help="How many runs to make on average; how many stays secret.")],
    grid: Annotated[
        list[str] | None, typer.Option("--grid", help="key=value,value,...: what runs draw from; may be repeated.")
    ] = None,
    law: Annotated[
        str, typer.Option("--law", help="Of the number of runs: geometric, logarithmic or poisson.")
    ] = "geometric",
    score: Annotated[
        str | None, typer.Option("--score", help="What the best run is best by [held-out rows, or validation].")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Where the recipe's data is.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The budget of the whole search.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Its delta; overrides the recipe.")] = None,
    population: Annotated[float | None, typer.Option("--population", help="Declared public data set size.")] = None,
    holdout: HoldoutOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to publish to [RECIPE-private].")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, overrides the recipe.")] = None,
    dataset_id: Annotated[str, typer.Option("--dataset-id", help="The data set's name in the shared ledger.")] = "",
    ledger: Annotated[
        str | None, typer.Option("--ledger", envvar="DISCREET_LEDGER", help="Shared ledger: path or postgresql://...")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; charge and train nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Search for settings on private data, publish the best run, and prove what the whole search gives away."""
    from discreet.cli.search_job import SearchJob

    given = {"epsilon": epsilon, "delta": delta, "population": population, "holdout": holdout}
    overrides = {key: value for key, value in given.items() if value is not None}
    job = SearchJob.new(recipe, (data, out), settings or [], overrides, (grid or [], trials, law, score))
    if dry_run:
        typer.echo(job.plan.model_dump_json(indent=2))
        return
    alone = one_run(job.plan)
    if not as_json:
        for line in _before(job.plan, alone):
            typer.echo(line, err=True)
    with spoken():
        guarantee, trained = job.run(ledger=ledger, dataset_id=dataset_id)
    if as_json:
        facts = {"folder": str(job.target), "epsilon": guarantee.epsilon, "delta": guarantee.delta}
        typer.echo(json.dumps(facts | {"epsilon_of_one_run": alone} | _of_winner(trained)))
        return
    found = _of_winner(trained)
    typer.echo("winner: " + ", ".join(f"{name}={_shown(value)}" for name, value in found["winner"].items()))
    for one in prices.last_of_each(trained.bought):
        typer.echo(f"{one.metric.replace('_', ' ')} {one.value:.4g} +/- {one.deviation:.2g}, bought on private rows")
    metrics = found["public_test"]
    accuracy = f", public test accuracy {metrics['accuracy']:.1%}" if "accuracy" in metrics else ""
    certified = f"certified epsilon {rounded_up(guarantee.epsilon)} at delta {guarantee.delta:g} for the whole search"
    typer.echo(f"{job.target}: {certified}{accuracy}")


def one_run(plan: Plan) -> float:
    """Epsilon of one run of the search, if it were made alone."""
    return plan.model_copy(update={"search": None}).guarantee().epsilon


def _before(plan: Plan, alone: float) -> list[str]:
    """What is public about the search, and what it costs."""
    from discreet.core.trials import most

    search, whole = plan.search, plan.guarantee().epsilon
    assert search is not None
    law = search.trials
    lines = [
        f"{len(search.candidates)} candidates; {law.mean:.3g} runs on average, more than {most(law, _SELDOM)} at most "
        f"once in a hundred searches; the best by {search.score.replace('_', ' ')} is released alone",
        f"epsilon {rounded_up(whole)} for the whole search; one such run alone would cost {rounded_up(alone)}, so "
        f"tuning costs about {rounded_up(max(0.0, whole - alone))}",
        "how many runs there are stays secret, so no progress is shown; interrupted, the search stays charged",
    ]
    return lines + list(prices.lines({"metrics": prices.metrics_of(plan)}))


def _of_winner(trained: Trained) -> dict[str, Any]:
    return {
        "winner": dict(trained.winner or {}),
        "public_test": dict(trained.evaluations[-1].metrics) if trained.evaluations else {},
        "bought": [asdict(one) for one in trained.bought],
    }


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
