"""`discreet ledger`: what was spent, whether the record is whole, and what a data set may spend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.accounting_options import AdjacencyOption, JsonOption
from discreet.cli.figures import rounded_up
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, LedgerError, VerificationFailed

if TYPE_CHECKING:
    from discreet.ledger import Ledger

LedgerOption = Annotated[
    str | None, typer.Option("--ledger", envvar="DISCREET_LEDGER", help="The ledger: a path or postgresql://...")
]

app = typer.Typer(help="Look at a ledger, check it, and set budgets.", no_args_is_help=True)


@app.command()
def show(ledger: LedgerOption = None, as_json: JsonOption = False) -> None:
    """List the entries, one line each."""
    for entry in _open(ledger).entries():
        if as_json:
            typer.echo(json.dumps({name: getattr(entry, name) for name in entry.__slots__ if name != "body"}))
            continue
        what = {
            "budget": f"data set {entry.dataset}: {entry.body}",
            "run": f"run {entry.run[:8]} of data set {entry.dataset or '-'}: {entry.body}",
            "attempt": f"run {entry.run[:8]}: attempt {entry.attempt}",
            "reservation": f"run {entry.run[:8]}: {entry.steps} steps charged from step {entry.position}",
            "release": f"run {entry.run[:8]}: released up to step {entry.position}",
        }.get(entry.kind, entry.body)
        typer.echo(f"{entry.number:6d}  {entry.at[:19]}  {what}")


@app.command()
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


@app.command()
def budget(
    dataset_id: Annotated[str, typer.Option("--dataset-id", help="The data set's name in the ledger.")],
    ledger: LedgerOption = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Set the budget of all runs together.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Its delta.")] = None,
    adjacency: AdjacencyOption = Adjacency.ADD_REMOVE,
    as_json: JsonOption = False,
) -> None:
    """Show what a data set has spent and may spend; with --epsilon and --delta, set what it may."""
    from discreet.ledger import Budget

    opened = _open(ledger, create=epsilon is not None)
    if (epsilon is None) != (delta is None):
        raise InputError("a budget needs both --epsilon and --delta")
    if epsilon is not None and delta is not None:
        opened.set_budget(dataset_id, Budget(epsilon, delta, adjacency))
    limit, spent = opened.budget(dataset_id)
    if as_json:
        facts = {"dataset": dataset_id, "spent": {"epsilon": spent.epsilon, "delta": spent.delta, "runs": spent.runs}}
        typer.echo(json.dumps({**facts, "budget": None if limit is None else limit.as_dict()}))
        return
    of = "no budget set" if limit is None else f"of epsilon {limit.epsilon:g}, delta {limit.delta:g}"
    typer.echo(
        f"{dataset_id}: spent epsilon {rounded_up(spent.epsilon, 6)}, delta {rounded_up(spent.delta, 6)} "
        f"in {spent.runs} runs, {of}"
    )


def _open(where: str | None, *, create: bool = False) -> Ledger:
    from discreet.ledger import Ledger

    if where is None:
        raise InputError("name the ledger with --ledger, or in DISCREET_LEDGER")
    if not create and "://" not in where and not Path(where).is_file():
        raise InputError(f"there is no ledger at {where}; check --ledger")
    return Ledger(where)


def _find_run(opened: Ledger, folder: Path) -> str:
    """Compare the record in a certificate with what the ledger holds of the same run."""
    from discreet.ledger import public_record
    from discreet.publication.verifier import read_certificate

    try:
        record = read_certificate(folder)["ledger"]["entries"]
    except (KeyError, TypeError):
        raise InputError(f"{folder} has a certificate without a record of its run; ask for the folder again") from None
    if not record:
        raise VerificationFailed(f"the record that {folder} states is empty")
    for run in {entry.run for entry in opened.entries() if entry.kind == "run"}:
        found = public_record(opened.entries(run))
        if found[: len(record)] == record:
            return f"{folder} is run {run[:8]} of this ledger"
    raise VerificationFailed(f"no run of the ledger has the record that {folder} states")
