"""The options that `train` and `tune` share: what to train on, within which budget, and where to write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[Path | None, typer.Option("--data", help="Where the recipe's data is.")]
EpsilonOption = Annotated[
    float | None, typer.Option("--epsilon", help="The budget, of a search the whole search's; overrides the recipe.")
]
DeltaOption = Annotated[float | None, typer.Option("--delta", help="Its delta; overrides the recipe.")]
PopulationOption = Annotated[float | None, typer.Option("--population", help="Declared public data set size.")]
HoldoutOption = Annotated[
    str | None, typer.Option("--holdout", help="Rows never trained on, for metrics that are bought: 10%.")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Folder to publish to [RECIPE-private].")]
SettingsOption = Annotated[list[str] | None, typer.Option("--set", help="key=value, overrides the recipe.")]
DatasetOption = Annotated[str, typer.Option("--dataset-id", help="The data set's name in the shared ledger.")]
LedgerOption = Annotated[
    str | None, typer.Option("--ledger", envvar="DISCREET_LEDGER", help="Shared ledger: path or postgresql://...")
]
DeviceOption = Annotated[str, typer.Option("--device", help="Where models train: cpu, cuda.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan; charge and train nothing.")]


def overrides_of(
    epsilon: float | None, delta: float | None, population: float | None, holdout: str | None
) -> dict[str, object]:
    """What of these was given, by the names that recipes have for it."""
    given = {"epsilon": epsilon, "delta": delta, "population": population, "holdout": holdout}
    return {key: value for key, value in given.items() if value is not None}
