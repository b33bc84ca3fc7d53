"""`discreet epsilon`: the price of a fixed plan; delta at an epsilon, groups of units, and what it means."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.accounting.method import Method
from discreet.cli.options import accounting as options
from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.plan import PlanOptions, with_plan
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.core.rounding import rounded_down, rounded_up

AtEpsilonOption = Annotated[
    float | None, typer.Option("--at-epsilon", help="Bound delta at this epsilon, instead of epsilon at --delta.")
]
GroupOption = Annotated[
    int | None, typer.Option("--group", help="For any so many units together, the rows of one person say.")
]

_LARGEST_GROUP = 1000


@with_plan
def epsilon(
    plan: PlanOptions,
    delta: options.MaybeDeltaOption = None,
    at_epsilon: AtEpsilonOption = None,
    group: GroupOption = None,
    method: options.MethodOption = Method.PLD,
    as_json: JsonOption = False,
) -> None:
    """Bound the epsilon of a plan that is fixed before the data is seen."""
    if (delta is None) == (at_epsilon is None):
        raise InputError("give either --delta, for epsilon, or --at-epsilon, for delta")
    event, adjacency = plan.planned().event(), plan.neighbours
    if at_epsilon is not None:
        if group is not None:
            raise InputError("--group goes with --delta, not with --at-epsilon")
        _delta_at(event, at_epsilon, adjacency, method, as_json)
        return
    assert delta is not None
    if group is not None:
        _of_group(event, group, delta, adjacency, method, as_json)
    else:
        from discreet.accounting.account import account

        options.show(account(event, delta, adjacency, method), as_json)


def _delta_at(event: Event, epsilon: float, adjacency: Adjacency, method: Method, as_json: bool) -> None:
    from discreet.accounting.answers.profile import delta_at

    found = delta_at(event, checks.nonnegative("--at-epsilon", epsilon), adjacency, method)
    if as_json:
        fields = {"epsilon": epsilon, "lower": None, "delta": found.delta, "delta_lower": found.lower}
        echo_json({**fields, "adjacency": adjacency.value, "method": found.method, "kind": found.kind})
        return
    least = "" if found.lower is None else f" (at least {rounded_down(found.lower)})"
    standing = f"by {found.method}, no guarantee"
    if found.kind == "guarantee":
        standing = f"{'proved' if found.delta < 1 else 'nothing is proved'} by {found.method}"
    typer.echo(
        f"delta {rounded_up(found.delta)}{least} at epsilon {rounded_up(epsilon, 6)}, {adjacency.value}, {standing}"
    )


def _of_group(event: Event, size: int, delta: float, adjacency: Adjacency, method: Method, as_json: bool) -> None:
    from discreet.accounting.answers.profile import group_guarantee

    if checks.count("--group", size) > _LARGEST_GROUP:
        raise InputError(f"--group must be at most {_LARGEST_GROUP:,} units, got {size:,}; price them as one unit")
    found = group_guarantee(event, size, delta, adjacency, method)
    if as_json:
        echo_json({**options.as_dict(found), "group": size})
        return
    options.show(found, as_json=False)
    typer.echo(f"for any {size} units together")
