"""`discreet tune`: a search for settings on private data, as one charge, and a published folder of the best run."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.options.json_output import JsonOption, echo_json, encoded
from discreet.cli.options.run import (
    DataOption,
    DatasetOption,
    DeltaOption,
    DeviceOption,
    DryRunOption,
    EpsilonOption,
    HoldoutOption,
    LedgerOption,
    OutOption,
    PopulationOption,
    SettingsOption,
    VerboseOption,
    overrides_of,
)
from discreet.cli.options.search import GridOption, KindOption, LawOption, TrialsOption
from discreet.cli.options.table import with_table
from discreet.cli.options.user_ledger import ledger_of
from discreet.cli.show import prices, public_rows
from discreet.cli.show.messages import spoken
from discreet.core.rounding import delta_up, rounded_up
from discreet.jobs.command_line import CommandLine
from discreet.jobs.tables.table_facts import NO_TABLE, TableFacts

if TYPE_CHECKING:
    from discreet.core.guarantee import Guarantee
    from discreet.jobs.tune import SearchJob
    from discreet.plan import Plan
    from discreet.training import Trained

_SELDOM = 0.01
_LOGISTIC = math.pi / math.sqrt(3)
"""The standard deviation of the difference of two standard Gumbel variables."""


@with_table
def tune(
    recipe: Annotated[
        str, typer.Argument(help="A recipe by name or .yaml file, a table, a folder of images, as of train.")
    ],
    trials: TrialsOption = None,
    grid: GridOption = None,
    kind: KindOption = "random_stopping",
    law: LawOption = None,
    score: Annotated[
        str | None,
        typer.Option("--score", help="A metric [held-out rows, or validation]; of parts: [accuracy] or loss:BOUND."),
    ] = None,
    data: DataOption = None,
    options: TableFacts = NO_TABLE,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    population: PopulationOption = None,
    holdout: HoldoutOption = None,
    out: OutOption = None,
    settings: SettingsOption = None,
    dataset_id: DatasetOption = None,
    ledger: LedgerOption = None,
    device: DeviceOption = "cpu",
    dry_run: DryRunOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search for settings on private data, publish the best run, and prove what the whole search gives away."""
    overrides = overrides_of(epsilon, delta, population, holdout)
    asked = CommandLine(recipe, data, out, settings or (), overrides, options)
    if not dry_run:
        from discreet.jobs.tables.first_look import first_look

        first_look(asked)
    from discreet.jobs.tables.image_or_text_schema import declared
    from discreet.jobs.tune import SearchJob, Wanted

    wanted = Wanted(kind, grid or [], trials, law, score)
    job = SearchJob.new(asked, wanted, device)
    alone = one_run(job.plan)
    if not as_json:
        for line in [*declared(job.recipe), *_before(job.plan, alone)]:
            typer.echo(line, err=True)
    if dry_run:
        for line in public_rows.lines(public_rows.joining(job.recipe, job.table, job.plan)):
            typer.echo(line, err=True)
        typer.echo(job.plan.model_dump_json(indent=2))
        return
    with spoken(verbose=verbose):
        guarantee, trained = job.run(ledger=ledger_of(ledger, dataset_id), dataset_id=dataset_id or "")
    _tell(job, guarantee, trained, alone, as_json=as_json)


def _tell(job: SearchJob, guarantee: Guarantee, trained: Trained, alone: float, *, as_json: bool) -> None:
    """Print the result, for people or as JSON. `alone`: epsilon of a single run."""
    if as_json:
        facts = {"folder": str(job.target), "epsilon": guarantee.epsilon, "delta": guarantee.delta}
        echo_json(facts | {"epsilon_of_one_run": alone} | _of_winner(trained))
        return
    found = _of_winner(trained)
    typer.echo("winner: " + ", ".join(f"{name}={_shown(value)}" for name, value in found["winner"].items()))
    for line in prices.results(trained.bought):
        typer.echo(line)
    metrics = found["public_test"]
    accuracy = f", public test accuracy {metrics['accuracy']:.1%}" if "accuracy" in metrics else ""
    certified = (
        f"certified epsilon {rounded_up(guarantee.epsilon)} at delta {delta_up(guarantee.delta)} for the whole search"
    )
    typer.echo(f"{job.target}: {certified}{accuracy}")


def one_run(plan: Plan) -> float:
    """Epsilon of one run of the search, if it were made alone."""
    return plan.model_copy(update={"search": None}).guarantee().epsilon


def _before(plan: Plan, alone: float) -> list[str]:
    """Print the public facts of the search, and its price."""
    from discreet.plan import Search

    said = _stopping if isinstance(plan.search, Search) else _parts
    return said(plan, plan.guarantee().epsilon, alone) + list(prices.lines({"metrics": prices.metrics_of(plan)}))


def _stopping(plan: Plan, whole: float, alone: float) -> list[str]:
    from discreet.core.trials import most
    from discreet.plan import Search

    search = plan.search
    assert isinstance(search, Search)
    law = search.trials
    return [
        f"{len(search.candidates)} candidates; {law.mean:.3g} runs on average, more than {most(law, _SELDOM)} at most "
        f"once in a hundred searches; the best by {search.score.replace('_', ' ')} is released alone",
        f"epsilon {rounded_up(whole)} for the whole search; one such run alone would cost {rounded_up(alone)}, so "
        f"tuning costs about {rounded_up(max(0.0, whole - alone))}",
        "how many runs there are stays secret, so no progress is shown; interrupted, the search stays charged",
    ]


def _parts(plan: Plan, whole: float, alone: float) -> list[str]:
    from discreet.plan import PartsSearch

    search = plan.search
    assert isinstance(search, PartsSearch)
    units = "users" if plan.unit == "user" else "rows"
    unit = 1.0 if search.bound is None else search.bound
    error = _LOGISTIC * unit / search.choice.epsilon
    what = "right predictions" if search.bound is None else "of the sum of losses"
    return [
        f"{search.parts - 1} candidates, each trained on a part of its own: 1 of {search.parts}, about "
        f"{plan.population:.4g} {units}; one of them, by {search.score} on the last part, is released alone",
        f"epsilon {rounded_up(whole)} for the whole search; one such run alone would cost {rounded_up(alone)}: no row "
        "is both trained on and looked at by the choice",
        f"between any two candidates the choice errs by {error:.3g} {what} (one standard deviation); interrupted, the "
        "search stays charged",
    ]


def _of_winner(trained: Trained) -> dict[str, Any]:
    return {
        "winner": dict(trained.winner or {}),
        "public_test": dict(trained.last_metrics),
        "bought": [asdict(one) for one in trained.bought],
    }


def _shown(value: object) -> str:
    return value if isinstance(value, str) else encoded(value)
