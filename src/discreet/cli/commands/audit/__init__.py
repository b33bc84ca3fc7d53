"""`discreet audit`: the privacy of a training as measured, beside what is proved of it."""

from __future__ import annotations

import typer

from discreet.cli.commands.audit.build import build
from discreet.cli.commands.audit.model import model
from discreet.cli.commands.audit.run import run
from discreet.cli.options.given_once import GivenOnce

app = typer.Typer(
    help="Measure the privacy of a training: evidence beside its bound, never a guarantee.", no_args_is_help=True
)
app.command(cls=GivenOnce)(build)
app.command(cls=GivenOnce)(run)
app.command(cls=GivenOnce)(model)
