"""One column of a schema: its type, its range or categories, and the treatment of values that do not fit.

| type     | a value is                       | range or categories                          |
|----------|----------------------------------|----------------------------------------------|
| number   | a number                         | `low`, `high`; `scale: log` for long tails   |
| date     | a day, 2024-12-31 or by `format` | `low`, `high`, as days                       |
| category | one of a list of texts           | `categories`, or `buy`; `same` maps spellings |
| boolean  | yes or no, in the usual spellings | none                                        |
| ignore   | not read                         | none                                         |
| image, text | see `wide`; a model sees such a column alone | none                          |

Treatments: `missing` (of a missing value), `outside` (of a number out of range), `unseen` (of a category that is not in
the list).

| treatment | what happens to the value                          |
|-----------|----------------------------------------------------|
| flag      | the model sees that it is missing (`missing` only) |
| clip      | the nearest end of the range (`outside` only)      |
| other     | a category of its own (`unseen` only)              |
| missing   | as if it were missing                              |
| drop      | the row is left out                                |
| refuse    | an error that names the row                        |

Features default to flag, clip and other; what is predicted defaults to refuse. Each depends on the row alone.
"""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from discreet.data.tables.categories import Boolean, Category, Missing
from discreet.data.tables.magnitudes import POWERS
from discreet.data.tables.wide import FreeText, Image
from discreet.plan.pydantic_base import Frozen

Outside = Literal["clip", "missing", "drop", "refuse"]
Censored = Literal["bound", "missing", "refuse"]

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")

FILL_IN = "FILL_IN"
"""A draft's placeholder where public knowledge is needed."""


EPOCH = datetime.date(1970, 1, 1)
"""Days are counted from this one."""

LARGEST = 1e30
"""The largest end of a range: a model computes in float32, whose largest number is 3.4e38."""


def _check_magnitude(name: str, ends: tuple[float, float] | None) -> None:
    if ends is not None and not max(map(abs, ends)) <= LARGEST:
        raise ValueError(f"{name} must be from {-LARGEST:g} to {LARGEST:g}, got {ends[0]:g} and {ends[1]:g}")


class Bought(Frozen):
    """A bought range: quantiles `share` and 1 - `share` of a noisy histogram `between` two public numbers.

    `noise` is its standard deviation in people, in each of `bins`; the price is that of one Gaussian release. Without
    `between`, all magnitudes are searched (see `magnitudes`) at the same price, with no `bins` and no `share`.
    """

    between: tuple[float, float] | None = None
    noise: Annotated[float, Field(gt=0)] = 10.0
    bins: Annotated[int, Field(ge=2, le=4096)] = 64
    share: Annotated[float, Field(ge=0, lt=0.5)] = 0.0

    @model_validator(mode="after")
    def _in_order(self) -> Bought:
        if self.between is None and (self.bins, self.share) != (64, 0.0):
            raise ValueError("bins and share go with between: [low, high]; leave them out to look at all magnitudes")
        if self.between is not None and not self.between[0] < self.between[1]:
            raise ValueError("between needs the lower number first")
        _check_magnitude("between", self.between)
        return self

    @property
    def widest(self) -> tuple[float, float]:
        """The public range that the bought one lies in."""
        return (POWERS[0], POWERS[-1]) if self.between is None else self.between


class Number(Frozen):
    """A number, scaled so that `low` is 0 and `high` is 1; with `scale: log`, by the logarithm of 1 + value - low.

    `spread` is for a number that is predicted: the usual distance from `centre` (by default the middle of the range),
    about the standard deviation. A wide range with few values near its ends needs it. `censored`: the treatment of a
    limit, <0.5 or >100: its `bound`, `missing`, or refuse.
    """

    type: Literal["number"] = "number"
    low: float | None = None
    high: float | None = None
    spread: Annotated[float, Field(gt=0)] | None = None
    centre: float | None = None
    buy: Bought | None = None
    scale: Literal["linear", "log"] = "linear"
    missing: Missing | None = None
    outside: Outside | None = None
    censored: Censored | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Number:
        known = self.bounds
        if self.buy is None and known is None:
            raise ValueError(
                "give low and high, from public knowledge, not from the table; or buy them, for example "
                "buy: {between: [0, 300]}"
            )
        if self.buy is not None and known is not None:
            raise ValueError("give either low and high, or buy")
        if self.buy is not None and self.outside not in (None, "clip"):
            raise ValueError(
                "what is outside of a range that is bought is clipped; leave out outside, or give the range"
            )
        if known is not None and not known[0] < known[1]:
            raise ValueError(f"low must be below high, got {known[0]:g} and {known[1]:g}")
        _check_magnitude("low and high", known)
        self._check_spread()
        return self

    def _check_spread(self) -> None:
        if self.centre is not None and self.spread is None:
            raise ValueError("centre goes with spread; give spread, or leave out centre")
        if self.spread is not None and self.scale == "log":
            raise ValueError("spread goes with scale: linear; leave out one of them")
        known = self.bounds
        if known is not None and self.spread is not None and self.spread > known[1] - known[0]:
            raise ValueError(f"spread must be at most high - low = {known[1] - known[0]:g}, got {self.spread:g}")
        if known is not None and self.centre is not None and not known[0] <= self.centre <= known[1]:
            raise ValueError(f"centre must be between low and high, got {self.centre:g}")

    @property
    def bounds(self) -> tuple[float, float] | None:
        """`low` and `high`; None as long as they are not bought."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def with_bounds(self, low: float, high: float) -> Number:
        """The column with the bought range. Values outside are clipped, because an error or a dropped row after the
        purchase would reveal that row."""
        return Number.model_validate(self.model_dump(exclude={"buy"}) | {"low": low, "high": high, "outside": "clip"})


class Date(Frozen):
    """A day, scaled as a number of days. `format`: how it is written, as of `strptime`, for example %d.%m.%Y."""

    type: Literal["date"] = "date"
    low: datetime.date
    high: datetime.date
    format: str | None = None
    missing: Missing | None = None
    outside: Outside | None = None
    scale: Literal["linear"] = "linear"

    @field_validator("low", "high", mode="before")
    @classmethod
    def _is_a_day(cls, given: object) -> object:
        if type(given) is datetime.date or (isinstance(given, str) and _ISO.fullmatch(given)):
            return given
        raise ValueError(f"a day is written as 2024-12-31 here, whatever the format of the column, got {str(given)!r}")

    @model_validator(mode="after")
    def _in_order(self) -> Date:
        if self.format is not None and not _names_a_day(self.format):
            raise ValueError(f"format {self.format!r} names no day; for example %d.%m.%Y, or %m/%d/%Y")
        if not self.low < self.high:
            raise ValueError(f"low must be before high, got {self.low} and {self.high}")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """`low` and `high` as days since 1970."""
        return float((self.low - EPOCH).days), float((self.high - EPOCH).days)


def _names_a_day(written: str) -> bool:
    """Whether a format tells the days of years apart."""
    day = datetime.date(2013, 11, 21)
    try:
        return datetime.datetime.strptime(day.strftime(written), written).date() == day
    except (ValueError, re.error):
        return False


class Ignore(Frozen):
    """A column that is not read: free text, names, identifiers."""

    type: Literal["ignore"] = "ignore"


Column = Annotated[Number | Date | Category | Boolean | Image | FreeText | Ignore, Field(discriminator="type")]
