"""The options of a search for settings, for all commands that take them."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options.checked_numbers import number
from discreet.core import checks

TrialsOption = Annotated[
    float | None, number("--trials", checks.positive, "How many runs to make on average; how many stays secret.")
]
GridOption = Annotated[
    list[str] | None, typer.Option("--grid", help="key=value,value,...: what runs draw from; may be repeated.")
]
KindOption = Annotated[
    str,
    typer.Option(
        "--kind", help="random_stopping: the best of --trials runs; parts: each candidate on a part of the data."
    ),
]
LawOption = Annotated[
    str | None, typer.Option("--law", help="Of the number of runs: logarithmic or poisson [geometric].")
]
