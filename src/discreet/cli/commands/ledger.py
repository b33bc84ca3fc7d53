"""`discreet ledger`: what was spent, whether the record is whole, and what a data set may spend."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.accounting import AdjacencyOption, NoiseOption, StepsOption
from discreet.cli.options.checked_numbers import number
from discreet.cli.options.given_once import GivenOnce
from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.sampling import RateOption
from discreet.cli.options.user_ledger import user_ledger
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError, LedgerError, VerificationFailed
from discreet.core.events import Event, Gaussian, Poisson, Repeat

if TYPE_CHECKING:
    from discreet.accounting.adaptive.filters import Filter
    from discreet.ledger import Ledger

LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", envvar="DISCREET_LEDGER", help="The ledger: a path or postgresql://... [yours]."),
]

app = typer.Typer(help="Look at a ledger, check it, and set budgets.", no_args_is_help=True)


@app.command(cls=GivenOnce)
def show(ledger: LedgerOption = None, as_json: JsonOption = False) -> None:
    """List the entries, one line each."""
    for entry in _open(ledger).walk():
        if as_json:
            echo_json({name: getattr(entry, name) for name in entry.__slots__ if name != "body"})
            continue
        steps = "1 step" if entry.steps == 1 else f"{entry.steps} steps"
        what = {
            "budget": f"data set {entry.dataset}: {entry.body}",
            "run": f"run {entry.run[:8]} of data set {entry.dataset or '-'}: {entry.body}",
            "attempt": f"run {entry.run[:8]}: attempt {entry.attempt}",
            "reservation": f"run {entry.run[:8]}: {steps} charged from step {entry.position}",
            "total": f"data set {entry.dataset}, so far: {entry.body}",
            "release": f"run {entry.run[:8]}: released up to step {entry.position}",
        }.get(entry.kind, entry.body)
        typer.echo(f"{entry.number:6d}  {entry.at[:19]}  {what}")


@app.command(cls=GivenOnce)
def verify(
    ledger: LedgerOption = None,
    folder: Annotated[Path | None, typer.Argument(help="A published folder whose run must be in the ledger.")] = None,
) -> None:
    """Walk the hash chain; an entry that was cut or edited is named. With a folder, look for its run too."""
    opened = _open(ledger)
    try:
        head = opened.verify()
    except LedgerError as error:
        raise VerificationFailed(str(error)) from None
    typer.echo(f"{head.entries} entries, each sealed by the next; the last has hash {head.hash}")
    if folder is not None:
        typer.echo(_find_run(opened, folder))


@app.command(cls=GivenOnce)
def individual(
    run: Annotated[Path, typer.Argument(help="The folder of a run with keep_spent: OUT.run.")],
    as_json: JsonOption = False,
) -> None:
    """Show the holder of the data how much of their own budgets units have used. Private: show it to nobody else."""
    from discreet.ledger.units_spent import FILE, PARTS, UnitsSpent

    found = UnitsSpent.load(run / FILE)
    shares = found.shares.tolist()
    typer.echo("discreet: private, like the data: computed without noise. Publish none of it", err=True)
    if as_json:
        echo_json({"private": True, "full": found.allowed / PARTS, "used": shares})
        return
    typer.echo(f"{len(shares)} units, each with a budget of {found.allowed / PARTS:g} steps at full length so far")
    counts = Counter(min(9, int(10 * share)) for share in shares)
    for tenth in range(10):
        bar = "#" * round(40 * counts[tenth] / max(1, len(shares)))
        typer.echo(f"{10 * tenth:3d} to {10 * tenth + 10:3d} % used  {counts[tenth]:7d}  {bar}".rstrip())


class FilterKind(StrEnum):
    """How a budget adds up."""

    BASIC = "basic"
    RDP_ORDER = "rdp-order"
    RDP_CURVE = "rdp-curve"
    ZCDP = "zcdp"
    GDP = "gdp"


FilterOption = Annotated[
    FilterKind,
    typer.Option("--filter", help="What adds up: whole runs (basic), or steps in Rényi DP, zCDP or Gaussian DP."),
]
EpsilonOption = Annotated[float | None, number("--epsilon", checks.positive, "Set the budget of all runs together.")]
DeltaOption = Annotated[float | None, number("--delta", checks.open_unit, "Its delta.")]
UnitOption = Annotated[Unit, typer.Option("--unit", help="What the budget protects: rows, or all rows of a person.")]
OrderOption = Annotated[
    float | None, typer.Option("--order", help="With rdp-order: the order, where no course is to choose it.")
]


@app.command(cls=GivenOnce)
def budget(
    dataset_id: Annotated[str, typer.Option("--dataset-id", help="The data set's name in the ledger.")],
    ledger: LedgerOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    adjacency: AdjacencyOption = Adjacency.ADD_REMOVE,
    unit: UnitOption = Unit.EXAMPLE,
    kind: FilterOption = FilterKind.BASIC,
    order: OrderOption = None,
    rate: RateOption = None,
    noise: NoiseOption = None,
    steps: StepsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a data set has spent and may spend; with --epsilon and --delta, set what it may.

    The filters rdp-order and rdp-curve are fitted to a planned course of --rate, --noise and --steps.
    """
    from discreet.accounting.adaptive import filters
    from discreet.ledger import without_budget
    from discreet.ledger.budget import in_words, limit_in_words

    if (epsilon is None) != (delta is None):
        raise InputError("a budget needs both --epsilon and --delta")
    if epsilon is None:
        _refuse_unused(
            adjacency=adjacency is not Adjacency.ADD_REMOVE,
            unit=unit is not Unit.EXAMPLE,
            filter=kind is not FilterKind.BASIC,
            order=order is not None,
            rate=rate is not None,
            noise=noise is not None,
            steps=steps is not None,
        )
    opened = _open(ledger, create=epsilon is not None)
    before, _ = opened.budget(dataset_id)
    if epsilon is not None and delta is not None:
        course = _course(rate, noise, steps)
        opened.set_budget(dataset_id, replace(_filter(kind, epsilon, delta, adjacency, order, course), unit=unit))
    limit, spent = opened.budget(dataset_id)
    if before is not None and limit != before:
        typer.echo(f"discreet: before, it was {limit_in_words(before)} by filter {before.kind}", err=True)
    if limit is None and (others := opened.budgets()):
        typer.echo(f"discreet: {without_budget(dataset_id, others)}", err=True)
    if as_json:
        sums: dict[str, object] = {"epsilon": spent.epsilon, "delta": spent.delta, "runs": spent.runs}
        if spent.share is not None:
            sums |= {"amounts": list(spent.amounts), "share": spent.share}
        facts = {"dataset": dataset_id, "spent": sums}
        echo_json({**facts, "budget": None if limit is None else filters.as_dict(limit)})
        return
    typer.echo(f"{dataset_id}: {in_words(limit, spent)}")


def _refuse_unused(**given: bool) -> None:
    """`InputError` for an option that says what budget to set, where none is set."""
    unused = next((name for name, there in given.items() if there), None)
    if unused is not None:
        raise InputError(f"--{unused} is of a budget that is set; add --epsilon and --delta, or leave it out")


def _course(rate: float | None, noise: float | None, steps: int | None) -> Event | None:
    """The planned course, if there is one; without --rate every unit is in every step."""
    if noise is None and steps is None and rate is None:
        return None
    if noise is None or steps is None:
        raise InputError("a planned course needs --noise and --steps, and --rate where batches are sampled")
    one = Gaussian(noise) if rate is None else Poisson(rate, Gaussian(noise))
    return Repeat(one, steps)


def _filter(
    kind: FilterKind, epsilon: float, delta: float, adjacency: Adjacency, order: float | None, course: Event | None
) -> Filter:
    from discreet.accounting.adaptive import filter_fit
    from discreet.ledger import Budget

    fitted = kind in (FilterKind.RDP_ORDER, FilterKind.RDP_CURVE)
    if order is not None and (kind is not FilterKind.RDP_ORDER or course is not None):
        raise InputError("--order goes with --filter rdp-order and without a planned course")
    if course is not None and not fitted:
        raise InputError("a planned course (--rate, --noise, --steps) goes with --filter rdp-order or rdp-curve")
    if order is not None:
        return filter_fit.at_order(order, epsilon, delta, adjacency)
    if kind is FilterKind.BASIC:
        return Budget(epsilon, delta, adjacency)
    if kind is FilterKind.ZCDP:
        return filter_fit.zcdp_filter(epsilon, delta, adjacency)
    if kind is FilterKind.GDP:
        return filter_fit.gaussian_filter(epsilon, delta, adjacency)
    if course is None:
        raise InputError(f"--filter {kind.value} needs a planned course: --noise, --steps, and --rate if sampled")
    choose = filter_fit.order_filter if kind is FilterKind.RDP_ORDER else filter_fit.curve_filter
    return choose(course, epsilon, delta, adjacency)


def _open(where: str | None, *, create: bool = False) -> Ledger:
    from discreet.ledger import Ledger

    if where is None:
        where = str(user_ledger(make=create))
        if not create and not Path(where).is_file():
            raise InputError(
                f"name the ledger with --ledger, or in DISCREET_LEDGER; there is none at {where}. A run without "
                "--dataset-id has one of its own, ledger.sqlite in its folder (MODEL.run)"
            )
    if not create and "://" not in where and not Path(where).is_file():
        raise InputError(f"there is no ledger at {where}; check --ledger")
    return Ledger(where)


def _find_run(opened: Ledger, folder: Path) -> str:
    """Compare the record in a certificate with what the ledger holds of the same run."""
    from discreet.certificate.equal_blocks import written_out
    from discreet.certificate.files import read_certificate
    from discreet.ledger import public_record

    try:
        ledger = read_certificate(folder)["ledger"]
        record, head = written_out(ledger["entries"]), ledger["head"]
    except (KeyError, TypeError):
        raise InputError(f"{folder} has a certificate without a record of its run; ask for the folder again") from None
    if not record:
        raise VerificationFailed(f"the record that {folder} states is empty")
    for run in [entry.run for entry in opened.walk() if entry.kind == "run"]:
        found = opened.entries(run)[: len(record)]
        if public_record(found) != record:
            continue
        if head != {"number": found[-1].number, "seal": found[-1].hash}:
            raise VerificationFailed(
                f"run {run[:8]} has this record, but the chain is not the one that {folder} states"
            )
        return f"{folder} is run {run[:8]} of this ledger"
    raise VerificationFailed(f"no run of the ledger has the record that {folder} states")
