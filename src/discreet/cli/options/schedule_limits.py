"""`discreet calibrate --schedule`: the rate, epochs or initial noise that a limit allows, and its picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from discreet.accounting import schedules
from discreet.accounting.bisection import bisect
from discreet.accounting.schedules import Kind, Schedule
from discreet.core.errors import InputError

_FINEST = 1e-6
"""Relative precision of the found initial noise."""

_LARGEST_NOISE = 1e6
_POINTS = 12


@dataclass(frozen=True, slots=True)
class Spending:
    """The measure `name` of a schedule after some epochs, and whether it keeps to `budget`."""

    name: str
    budget: float
    spent: Callable[[Schedule, int], float]
    fits: Callable[[Schedule, int], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """The completed schedule, its number of epochs, and the name of the quantity that was found."""

    shape: Schedule
    epochs: int
    fields: dict[str, float]


def solve(text: str, epochs: float | None, spending: Spending) -> Found:
    """Find the one thing that is left out: --epochs, or the `rate` or the `initial` of the schedule."""
    shape = schedules.parse(text, without_initial=True)
    if shape.per_step:
        raise InputError(f"--schedule {text}: calibrate counts epochs; leave out per=step")
    given = {item.partition("=")[0] for item in text.partition(":")[2].split(",")}
    missing = [name for name in ("initial", "rate") if name not in given]
    missing = [name for name in missing if not (name == "rate" and shape.kind in schedules.RATELESS)]
    missing = [name for name in missing if not (name == "initial" and shape.kind is Kind.PIECEWISE)]
    missing += ["--epochs"] if epochs is None else []
    if len(missing) != 1:
        what = f"{' and '.join(missing)} are left out" if missing else "nothing is left to find"
        raise InputError(f"--schedule {text}: {what}; leave out one of initial, rate and --epochs")
    if missing == ["--epochs"]:
        count = _most_epochs(shape, spending)
        return Found(shape, count, {"epochs": count})
    count = whole(epochs)
    if missing == ["rate"]:
        shape = schedules.solve_rate(shape, spending.fits, count)
        assert shape.rate is not None
        return Found(shape, count, {"rate": shape.rate})
    shape = _least_initial(shape, count, spending)
    return Found(shape, count, {"initial": shape.initial})


def whole(epochs: float | None) -> int:
    """--epochs as a whole number."""
    if epochs is None or not epochs >= 1 or epochs != int(epochs):
        raise InputError(f"--epochs must be a whole number of at least 1 to calibrate a --schedule, got {epochs!r}")
    return int(epochs)


def _most_epochs(shape: Schedule, spending: Spending) -> int:
    """The most epochs: the run stops before the epoch that would spend too much."""
    if not spending.fits(shape, 1):
        raise InputError(f"not even one epoch keeps to --{spending.name} {spending.budget:g}; take more noise")
    low, high = 1, 2
    while spending.fits(shape, high):
        low, high = high, 2 * high
        if low > schedules.MOST_EPOCHS:
            raise InputError(
                f"the budget lasts for more than {schedules.MOST_EPOCHS:,} epochs; give a smaller one or less noise"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spending.fits(shape, middle) else (low, middle)
    return low


def _least_initial(shape: Schedule, epochs: int, spending: Spending) -> Schedule:
    """The smallest noise to begin with, on the safe side."""
    least = shape.end if shape.kind is Kind.POLYNOMIAL else 0.0

    def at(above: float) -> Schedule:
        return replace(shape, initial=least + above)

    low = high = 1.0
    while not spending.fits(at(high), epochs):
        low, high = high, 2 * high
        if high > _LARGEST_NOISE:
            raise InputError(f"no initial noise up to {_LARGEST_NOISE:g} lasts for {epochs} epochs; change the rate")
    while low == high or spending.fits(at(low), epochs):
        high, low = min(low, high), low / 2
        if low < 1 / _LARGEST_NOISE:
            raise InputError("any initial noise keeps to the budget: the noise at the end decides; change `end`")
    return at(bisect(lambda above: spending.fits(at(above), epochs), low, high, relative=_FINEST, geometric=True)[1])


def picture(path: Path, found: Found, spending: Spending) -> None:
    """Draw the noise over epochs, and the spent measure up to the budget."""
    from discreet.cli.show.plan_plot import draw

    counts = sorted({math.ceil(found.epochs * point / _POINTS) for point in range(1, _POINTS + 1)})
    draw(
        path,
        {
            "noise": [[found.shape.multiplier(t), 1] for t in range(found.epochs)],
            "over": "epochs",
            "spent": [[count, spending.spent(found.shape, count)] for count in counts],
            "spent_title": f"{spending.name.capitalize()} of the first epochs, at most",
            "budget": spending.budget,
        },
    )
