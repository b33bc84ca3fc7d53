"""The options that `train` and `tune` share, in groups: data, privacy, training, output."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.certificate.described import About
from discreet.cli.options.checked_numbers import number
from discreet.cli.options.population import population_option
from discreet.core import checks
from discreet.core.errors import InputError

DATA, PRIVACY, TRAINING, OUTPUT = "Data", "Privacy", "Training", "Output"
"""Groups of options in `--help`."""

RecipeArgument = Annotated[
    str | None, typer.Argument(help="A recipe by name or .yaml file, a table, a folder of images [digits].")
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder or file with the data set that the recipe names.", rich_help_panel=DATA),
]


def _epsilon(value: float | None) -> float | None:
    """An epsilon that can be met, so that another is refused before anything is loaded."""
    if value is not None and not 0 < value < math.inf:
        raise InputError(f"--epsilon must be finite and greater than 0, got {value}")
    return value


def _delta(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise InputError(f"--delta must be finite, greater than 0 and less than 1, got {value}")
    return value


EpsilonOption = Annotated[
    float | None,
    typer.Option(
        "--epsilon", help="The privacy budget: less protects better.", rich_help_panel=PRIVACY, callback=_epsilon
    ),
]
DeltaOption = Annotated[
    float | None,
    typer.Option(
        "--delta",
        help="Probability that epsilon does not cover; below 1 / population.",
        rich_help_panel=PRIVACY,
        callback=_delta,
    ),
]
PopulationOption = Annotated[
    float | None, population_option("How many people (or rows) there are, as the public may know.", PRIVACY)
]
HoldoutOption = Annotated[
    str | None,
    typer.Option(
        "--holdout", help="Share of private rows kept back to measure the model on: 10%.", rich_help_panel=PRIVACY
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Folder to publish to [RECIPE-private].", rich_help_panel=OUTPUT),
]
TitleOption = Annotated[
    str | None,
    typer.Option("--title", help="What the model is called in its report and card.", rich_help_panel=OUTPUT),
]
NoteOption = Annotated[
    str | None,
    typer.Option("--note", help="What it is for, in the report and card: intended use.", rich_help_panel=OUTPUT),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: steps=200, optimizer.lr=0.1.", rich_help_panel=TRAINING),
]
ShowSettingsOption = Annotated[
    bool,
    typer.Option("--show-settings", help="List what --set can change; train nothing.", rich_help_panel=TRAINING),
]


def _not_empty(value: str | None) -> str | None:
    """A name that was given; an empty one (of a variable that is not set, say) would train without a budget."""
    if value is not None and not value.strip():
        raise InputError("--ledger and --dataset-id name the budget that is meant; an empty name is none")
    return value


def _name_of_data(value: str | None) -> str | None:
    """A name that a ledger takes, so that a wrong one is refused before anything is loaded."""
    if _not_empty(value) is not None:
        from discreet.ledger.names import checked_name

        checked_name(str(value))
    return value


DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset-id",
        help="Name of the data set in the shared ledger.",
        rich_help_panel=PRIVACY,
        callback=_name_of_data,
        show_default=False,
    ),
]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DISCREET_LEDGER",
        help="Ledger that adds up all runs on the data: a path or postgresql://... [yours, with --dataset-id].",
        rich_help_panel=PRIVACY,
        callback=_not_empty,
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda.", rich_help_panel=TRAINING)]
ProcessesOption = Annotated[
    int | None,
    number("--processes", checks.count, "Take the steps in so many processes of this machine.", TRAINING),
]
LanesOption = Annotated[
    int | None,
    number(
        "--lanes",
        checks.count,
        "Parts of a batch that processes share; as many as may ever take part [processes].",
        TRAINING,
    ),
]
SitesOption = Annotated[
    int | None,
    number(
        "--sites", checks.count, "Tables of so many sites, patients-{site}.csv, each read by one process alone.", DATA
    ),
]


class Shard(StrEnum):
    """The part of the weights that each process keeps, as `Training(shard=...)` names it."""

    REPLICATE = "replicate"
    FULLY = "fully"


ShardOption = Annotated[
    Shard | None,
    typer.Option(
        "--shard",
        help="Of the weights each process keeps all (replicate) or a part (fully), for models too large for one.",
        rich_help_panel=TRAINING,
    ),
]
ResumeOption = Annotated[
    Path | None,
    typer.Option("--resume", help="Go on with an interrupted run: OUT.run.", rich_help_panel=TRAINING),
]
FinishOption = Annotated[
    bool,
    typer.Option("--finish", help="With --resume: publish the model as it is.", rich_help_panel=TRAINING),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what the run would do; charge and train nothing.", rich_help_panel=OUTPUT),
]
AuditOption = Annotated[
    bool,
    typer.Option("--audit", help="First audit the build on made-up rows; the report shows it.", rich_help_panel=OUTPUT),
]
VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", help="Say how gradients are clipped (the engine), how exactly.", rich_help_panel=OUTPUT),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT)]


def about_of(title: str | None, note: str | None) -> About:
    """The checked title and note: one line of at most 2,000 characters each."""
    for name, text in (("--title", title), ("--note", note)):
        if text is not None and not (text.isprintable() and 0 < len(text) <= 2000):
            if not text:
                raise InputError(f"{name} is empty; say it, or leave the option out")
            raise InputError(f"{name} is one line of at most 2,000 printable characters")
    return About(title=title, note=note)


def overrides_of(
    epsilon: float | None, delta: float | None, population: float | None, holdout: str | None
) -> dict[str, object]:
    """The given options among these, by their names in recipes."""
    if holdout is not None and re.fullmatch(r"[1-9]\d*(\.\d*)?", holdout.strip()):
        raise InputError(f"--holdout {holdout} is no share of the rows: it is below 1, as 0.1, or in percent, as 10%")
    given = {"epsilon": epsilon, "delta": delta, "population": population, "holdout": holdout}
    return {key: value for key, value in given.items() if value is not None}
