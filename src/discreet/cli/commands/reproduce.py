"""`discreet reproduce`: the papers' tables and figures, regenerated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.run import DeviceOption
from discreet.core.errors import InputError

if TYPE_CHECKING:
    from discreet_papers.measure.run import BeforeCell
    from discreet_papers.part import Cell


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments, papers, or paths of .yaml files [all there are].")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what there is; run nothing.")] = False,
    quick: Annotated[bool, typer.Option("--quick/--full", help="Small, or as in the paper.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", envvar="DISCREET_DATA", help="Folder that has mnist/, adult/ and so on.")
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Runs of each cell [as the file says].")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results (JSON).")] = Path("reproduced"),
    pages: Annotated[Path | None, typer.Option("--pages", help="Folder of pages and pictures [that of --out].")] = None,
    device: DeviceOption = "cpu",
    render: Annotated[bool, typer.Option("--render", help="Only write the pages of what is there.")] = False,
) -> None:
    """Measure tables and figures of the five papers anew, with what is certified beside what is printed."""
    from discreet_papers.experiment import chosen, read_experiment, read_header

    wanted = chosen(names or [])
    if listed:
        for line in _list(wanted):
            typer.echo(line)
        return
    from discreet_papers.measure.run import measure
    from discreet_papers.measure.store import Store
    from discreet_papers.pages import pages as writer
    from discreet_papers.part import Setting

    wanted.sort(key=lambda name: read_header(name).minutes.quick if quick else read_header(name).minutes.full)
    setting = Setting(data, progress=False, device=device)
    for name in wanted:
        experiment = read_experiment(name, "quick" if quick else "full")
        lacking = [one for one in experiment.header.data if not _is_there(one, data)]
        if lacking and not render:
            words = f"{name} needs the data set {lacking[0]}; give the folder that has {lacking[0]}/ with --data DIR"
            if names:
                raise InputError(words)
            typer.echo(f"skipped: {words}", err=True)
            continue
        store = Store(out, experiment.name, experiment.mode)
        if not render:
            with _progress(experiment.name) as said:
                count = measure(experiment, store, setting, seeds, said)
            typer.echo(f"{store.path}: {count} cells measured, {len(store.cells)} there", err=True)
        typer.echo(str(writer.write(experiment, store, pages or out)))


def _list(wanted: list[str]) -> Iterator[str]:
    """A line for each experiment, aligned."""
    from discreet_papers.experiment import read_header
    from discreet_papers.papers import PAPERS

    rows = [("name", "paper", "item", "about minutes, quick/full", "data", "what")]
    for name in wanted:
        header = read_header(name)
        minutes = f"{header.minutes.quick:g} / {header.minutes.full:g}"
        data = ", ".join(header.data) or "-"
        rows.append((name, PAPERS[header.paper].short, header.item, minutes, data, header.title))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        yield "  ".join([*cells, row[-1]])


def _is_there(name: str, data: Path | None) -> bool:
    """Whether a data set can be read; one that scikit-learn has needs no folder."""
    return name == "digits" or (data is not None and ((data / name).is_dir() or data.name == name))


@contextmanager
def _progress(name: str) -> Iterator[BeforeCell]:
    """A bar on a terminal, silence elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done, _of, _cell: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def said(done: int, total: int, cell: Cell) -> None:
            bar.update(task, completed=done, total=total, description=cell.name)

        yield said
