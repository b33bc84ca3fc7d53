"""What a schema says of one column: its type, its range or categories, and what becomes of values that do not fit.

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
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from discreet.data.tables.magnitudes import POWERS
from discreet.data.tables.wide import FreeText, Image
from discreet.plan.pydantic_base import Frozen

Missing = Literal["flag", "drop", "refuse"]
Outside = Literal["clip", "missing", "drop", "refuse"]
Unseen = Literal["other", "missing", "drop", "refuse"]
Censored = Literal["bound", "missing", "refuse"]

FILL_IN = "FILL_IN"
"""What a draft writes where public knowledge is needed."""

TRUE = ("true", "yes", "y", "t", "1", "1.0", "ja", "j", "wahr", "oui", "vrai", "si", "sí", "sì")
FALSE = ("false", "no", "n", "f", "0", "0.0", "nein", "falsch", "non", "faux")
"""Spellings of a boolean, in lower case."""

_FORMULA = ("=", "@", "\t", "\r")


def formula_like(text: str) -> bool:
    """Whether a spreadsheet would take the text for a formula, if it met it in a file of predictions."""
    if text.startswith(_FORMULA):
        return True
    return text[:1] in ("+", "-") and any(mark in text for mark in "(=|!")


def _text(value: object) -> object:
    """A category as text. YAML reads 1 as a number, and yes as a truth value, which would lose its spelling."""
    if isinstance(value, bool) or value is None:
        raise ValueError("YAML reads this as a truth value or as nothing; put it in quotes")
    return str(value) if isinstance(value, int | float | datetime.date) else value


Text = Annotated[str, BeforeValidator(_text)]


class Bought(Frozen):
    """A range that is bought: quantiles `share` and 1 - `share` of a noisy histogram `between` two public numbers.

    `noise` is its standard deviation in people, in each of `bins`; the price is that of one Gaussian release.
    Without `between`, it is looked for among all magnitudes (see `magnitudes`) at the same price, with no `bins` and no
    `share`.
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
        return self

    @property
    def widest(self) -> tuple[float, float]:
        """The public range that the bought one lies in."""
        return (POWERS[0], POWERS[-1]) if self.between is None else self.between


class Number(Frozen):
    """A number, scaled so that `low` is 0 and `high` is 1; with `scale: log`, by the logarithm of 1 + value - low.

    `spread` matters where the number is predicted: how far values usually are from `centre` (the middle of the range
    if none is given), about their standard deviation. A wide range with few values near its ends needs it.
    `censored`: what becomes of a limit, <0.5 or >100: its `bound`, `missing`, or refuse.
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
        """The column with the range that was bought. An error or a row less after the purchase would tell of a row, so
        what is outside is clipped."""
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
        start = datetime.date(1970, 1, 1).toordinal()
        return float(self.low.toordinal() - start), float(self.high.toordinal() - start)


def _names_a_day(written: str) -> bool:
    """Whether a format tells the days of years apart."""
    day = datetime.date(2013, 11, 21)
    try:
        return datetime.datetime.strptime(day.strftime(written), written).date() == day
    except (ValueError, re.error):
        return False


class BoughtCategories(Frozen):
    """Categories that are bought: those that are frequent, by their noisy counts (see `frequent`).

    `noise` is the standard deviation of a count, in people; the price is that of one Gaussian release, and a
    thousandth of delta. The `most` frequent are kept at most; a model has room for so many.
    """

    noise: Annotated[float, Field(ge=0.1, le=1e9)] = 10.0
    most: Annotated[int, Field(ge=1, le=4096)] = 32


class Category(Frozen):
    """One of the `categories`, in the order in which classes are numbered. `same` maps other spellings to them.

    `room`: as how many categories they are encoded, if not as so many as there are. `numeric`: 1.0 and 01 are 1.
    """

    type: Literal["category"] = "category"
    categories: tuple[Text, ...] = ()
    buy: BoughtCategories | None = None
    room: Annotated[int, Field(ge=1)] | None = None
    same: Mapping[str, Text] = {}
    numeric: bool = False
    weights: Mapping[Text, Annotated[float, Field(gt=0)]] = {}
    missing: Missing | None = None
    unseen: Unseen | None = None

    @field_validator("categories", mode="before")
    @classmethod
    def _known_beforehand(cls, value: Any) -> Any:
        if value == "buy":
            raise ValueError("to buy categories, say buy: {noise: 10} in the place of categories")
        if isinstance(value, str):
            raise ValueError("give a list of texts")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Category:
        if self.buy is not None:
            self._check_bought()
        elif not self.categories and self.room is None:
            raise ValueError(
                "give categories, from public knowledge, not from the table; or buy them, for example buy: {noise: 10}"
            )
        if self.room is not None and len(self.categories) > self.room:
            raise ValueError(f"there are {len(self.categories)} categories, and room for {self.room}")
        twice = {name for name in self.categories if self.categories.count(name) > 1}
        if twice:
            raise ValueError(f"the category {min(twice)!r} is listed twice")
        wrong = [name for name in self.categories if formula_like(name)]
        if wrong:
            raise ValueError(f"the category {wrong[0]!r} looks like a formula; rename it in the table, or map it")
        for field, names in (("same", self.same.values()), ("weights", self.weights)):
            unknown = sorted(set(names) - set(self.categories))
            if unknown and self.buy is None:
                raise ValueError(f"{field} names {unknown[0]!r}, which is not in categories")
        both = sorted(set(self.same) & set(self.categories))
        if both:
            raise ValueError(f"{both[0]!r} is a category and is mapped by same as well")
        return self

    def _check_bought(self) -> None:
        if self.categories or self.room is not None:
            raise ValueError("give either categories, or buy")
        if self.weights:
            raise ValueError("weights are of categories that are known beforehand; list them")
        if self.unseen not in (None, "other"):
            raise ValueError("what is not among categories that are bought is `other`; leave out unseen, or list them")
        both = sorted(set(self.same) & set(self.same.values()))
        if both:
            raise ValueError(f"same maps {both[0]!r}, and maps others to it")

    def with_categories(self, names: Sequence[str]) -> Category:
        """The column with the categories that were bought. An error or a row less after the purchase would tell of a
        row, so every other value is `other`."""
        assert self.buy is not None
        found = {"categories": tuple(names), "room": self.buy.most, "unseen": "other"}
        kept = {spelling: name for spelling, name in self.same.items() if name in set(names)}
        return Category.model_validate(self.model_dump(exclude={"buy"}) | found | {"same": kept})

    @property
    def width(self) -> int:
        """As how many categories they are encoded."""
        return len(self.categories) if self.room is None else self.room

    @property
    def codes(self) -> dict[str, int]:
        """The number of the category, for every spelling."""
        numbers = {name: number for number, name in enumerate(self.categories)}
        return numbers | {spelling: numbers[name] for spelling, name in self.same.items()}


class Boolean(Frozen):
    """True or false, yes or no, 1 or 0, in any case; `weights` are those of false and true."""

    type: Literal["boolean"] = "boolean"
    weights: Mapping[Text, Annotated[float, Field(gt=0)]] = {}
    missing: Missing | None = None
    unseen: Unseen | None = None

    @property
    def categories(self) -> tuple[str, ...]:
        """As those of a category."""
        return "false", "true"

    @property
    def width(self) -> int:
        """As how many categories they are encoded."""
        return 2

    @property
    def codes(self) -> dict[str, int]:
        """The number of the category, for every spelling in lower case."""
        return dict.fromkeys(FALSE, 0) | dict.fromkeys(TRUE, 1)


class Ignore(Frozen):
    """A column that is not read: free text, names, identifiers."""

    type: Literal["ignore"] = "ignore"


Column = Annotated[Number | Date | Category | Boolean | Image | FreeText | Ignore, Field(discriminator="type")]
