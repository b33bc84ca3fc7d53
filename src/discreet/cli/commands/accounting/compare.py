"""`discreet compare`: every method side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import accounting as options
from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.plan import PlanOptions, with_plan
from discreet.core.guarantee import Guarantee
from discreet.core.rounding import rounded_down, rounded_up

if TYPE_CHECKING:
    from discreet.accounting.answers.compare import Counterpart, Row


@with_plan
def compare_methods(
    plan: PlanOptions,
    delta: options.DeltaOption,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw epsilon over steps: a .png or .svg file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what every method says about one fixed plan, and why that does or does not hold."""
    from discreet.accounting.answers.compare import compare, counterpart, curves

    planned, adjacency = plan.planned(), plan.neighbours
    if plot is not None:
        from discreet.cli.show.compare_plot import draw
        from discreet.cli.show.picture_files import check_target

        check_target(plot)
    rows, beside = compare(planned.event(), delta, adjacency), counterpart(planned.event(), delta, adjacency)
    if as_json:
        facts = {
            "delta": delta,
            "adjacency": adjacency.value,
            "rate": planned.draws.rate,
            "steps": planned.steps,
            "sampling": str(plan.sampling),
            "methods": [_as_dict(row) for row in rows],
            "poisson": _poisson(beside),
        }
        echo_json(facts)
    else:
        for line in [*_table(rows), *_beside(beside)]:
            typer.echo(line)
    if plot is not None:
        draw(plot, curves(planned.first_steps, planned.steps, delta, adjacency), delta, adjacency)
        typer.echo(f"wrote {plot}", err=True)


def _as_dict(row: Row) -> dict[str, object]:
    statement = row.statement
    return {
        "method": row.method.value,
        "kind": row.kind,
        "epsilon": None if statement is None else statement.epsilon,
        "lower": statement.lower if isinstance(statement, Guarantee) else None,
        "why": row.why,
    }


def _poisson(beside: Counterpart | None) -> dict[str, object] | None:
    return None if beside is None else {**options.as_dict(beside.poisson), "why": beside.why}


def _beside(beside: Counterpart | None) -> list[str]:
    """The plan beside the figure of Poisson batches, in words."""
    if beside is None:
        return []
    found, poisson = beside.actual, beside.poisson
    truth = "nothing is proved"
    if found is not None:
        lower = "" if found.lower is None else f"at least {rounded_down(found.lower)} and "
        truth = f"{lower}at most {rounded_up(found.epsilon)} ({found.adjacency.value})"
    return [
        "",
        f"this plan              {truth}",
        f"{beside.what} at most {rounded_up(poisson.epsilon)} ({poisson.adjacency.value})  {beside.why}",
    ]


def _table(rows: list[Row]) -> list[str]:
    """Aligned columns: method, epsilon, kind, why."""
    cells = [
        (row.method.value, "-" if row.statement is None else rounded_up(row.statement.epsilon), row.kind)
        for row in rows
    ]
    head = ("method", "epsilon", "kind")
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(3)]

    def line(cell: tuple[str, str, str], why: str) -> str:
        return f"{cell[0]:<{widths[0]}}  {cell[1]:>{widths[1]}}  {cell[2].replace('_', ' '):<{widths[2]}}  {why}"

    return [line(head, "why"), *(line(cell, row.why) for cell, row in zip(cells, rows, strict=True))]
