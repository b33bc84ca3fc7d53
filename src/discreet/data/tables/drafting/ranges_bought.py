"""Buying all unknown ranges of a draft together, for one small price."""

from __future__ import annotations

import math
from collections.abc import Collection

from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.core import checks
from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import Gaussian

PRICE = 0.3
"""The epsilon of all ranges together, by themselves; they add less to that of training."""

_LEAST_ROWS = 75
"""Rows for each unit of noise from which on a range usually covers nine rows in ten."""


def noise_for(columns: int, population: float) -> float:
    """The noise at which `columns` ranges together cost epsilon `PRICE`, with delta a power of ten below 1 /
    `population`.

    A person is in a bin of every column, so all histograms are one release whose sensitivity is sqrt(columns).
    """
    delta = checks.default_delta(population)
    together, _ = calibrate_noise(lambda noise: Gaussian(noise, Query.HISTOGRAM), PRICE, delta)
    return math.ceil(together * math.sqrt(columns) * 10) / 10


def with_ranges_bought(
    columns: dict[str, str], unknown: Collection[str], population: float | None, unit: str | None, tail: dict[str, str]
) -> tuple[dict[str, str], str]:
    """The lines of `columns`, with the ranges of the `unknown` ones bought; and a comment on the price.

    `tail`: further text of a column's line. `InputError` without a population, or where rows are not people.
    """
    if not unknown:
        return columns, ""
    if population is None:
        raise InputError(
            "--buy ranges: how loud the noise must be follows from --population; say how many rows there are"
        )
    if unit not in (None, "row"):
        raise InputError("--buy ranges protects single rows, and a person may have several here; declare the ranges")
    noise = noise_for(len(unknown), population)
    text = (
        f"# The ranges of {len(unknown)} columns are bought: together epsilon {PRICE} if nothing else were released.\n"
    )
    if noise * _LEAST_ROWS > population:
        text += (
            f"# CAREFUL: {population:,.15g} rows are few for that, as noise of {noise:g} rows hides what fewer have.\n"
            "# Declare what somebody knows, or lower the noise: the price rises.\n"
        )
    bought = {
        name: f"{{type: number, buy: {{noise: {noise:g}}}{tail.get(name, '')}}}  # its range is bought"
        for name in unknown
    }
    return columns | bought, text
