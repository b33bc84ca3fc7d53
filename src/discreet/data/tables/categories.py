"""Columns of categories and booleans in a schema."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from discreet.plan.pydantic_base import Frozen

Missing = Literal["flag", "drop", "refuse"]
Unseen = Literal["other", "missing", "drop", "refuse"]

TRUE = ("true", "yes", "y", "t", "1", "1.0", "ja", "j", "wahr", "oui", "vrai", "si", "sí", "sì")
FALSE = ("false", "no", "n", "f", "0", "0.0", "nein", "falsch", "non", "faux")
"""Spellings of a boolean, in lower case."""


def words_of(texts: Sequence[str]) -> tuple[str, str] | None:
    """The spellings of false and of true among the texts; None unless there is exactly one of each."""
    false = [text for text in texts if text.lower() in FALSE]
    true = [text for text in texts if text.lower() in TRUE]
    return (false[0], true[0]) if len(false) == len(true) == 1 else None


def _lowered(word: str) -> str:
    """The word in lower case as values of tables are, by rules of Arrow: Python's differ for a final Σ and for İ."""
    if word.isascii():
        return word.lower()
    import pyarrow as pa
    import pyarrow.compute as pc

    return str(pc.utf8_lower(pa.scalar(word)).as_py())


MOST_CATEGORIES = 10_000
"""The most categories of one column; each is a number in a model."""

_FORMULA = ("=", "@", "\t", "\r")


def formula_like(text: str) -> bool:
    """Whether a spreadsheet would take the text for a formula in a file of predictions."""
    if text.startswith(_FORMULA):
        return True
    return text[:1] in ("+", "-") and any(mark in text for mark in "(=|!")


def _text(value: object) -> object:
    """A category as text. YAML reads 1 as a number, and yes as a truth value, which would lose its spelling."""
    if isinstance(value, bool) or value is None:
        raise ValueError("YAML reads this as a truth value or as nothing; put it in quotes")
    return str(value) if isinstance(value, int | float | datetime.date) else value


Text = Annotated[str, BeforeValidator(_text)]
Weight = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=1)]

_ROUNDING = 0.02
"""The largest difference of the sum of rounded shares from 1."""


def _check_classes(column: Category | Boolean) -> None:
    """Refuse weights or shares of unknown classes, both together, and shares with an impossible sum."""
    for field, given in (("weights", column.weights), ("shares", column.shares)):
        unknown = sorted(set(given) - set(column.categories))
        if unknown:
            raise ValueError(f"{field} names {unknown[0]!r}, which is not in categories")
    if column.weights and column.shares:
        raise ValueError("give weights or shares; shares alone weigh all classes alike")
    total = sum(column.shares.values())
    whole = len(column.shares) == len(column.categories)
    if column.shares and (abs(total - 1) > _ROUNDING if whole else total >= 1):
        raise ValueError(f"shares add up to {total:.4g}; those of all classes add up to 1")


def class_shares(column: Category | Boolean) -> tuple[float, ...] | None:
    """The declared shares in the order of the categories, with a sum of 1; None if none is declared. Those that are
    left out are equally frequent."""
    if not column.shares:
        return None
    left = [name for name in column.categories if name not in column.shares]
    rest = (1 - sum(column.shares.values())) / len(left) if left else 0.0
    found = [column.shares.get(name, rest) for name in column.categories]
    return tuple(share / sum(found) for share in found)


class BoughtCategories(Frozen):
    """Bought categories: the frequent ones, by their noisy counts (see `frequent`).

    `noise` is the standard deviation of a count, in people; the price is that of one Gaussian release, and a
    thousandth of delta. The `most` frequent are kept at most; a model has room for so many.
    """

    noise: Annotated[float, Field(ge=0.1, le=1e9)] = 10.0
    most: Annotated[int, Field(ge=1, le=4096)] = 32


class Category(Frozen):
    """One of the `categories`, in the order in which classes are numbered. `same` maps other spellings to them.

    `room`: the encoded number of categories, if not the listed number. `numeric`: 1.0 and 01 are 1. Of the target,
    `weights` multiply the loss of rows of a class. `shares` say how frequent classes are among all people; the model
    then answers as if they were equally frequent.
    """

    type: Literal["category"] = "category"
    categories: tuple[Text, ...] = ()
    buy: BoughtCategories | None = None
    room: Annotated[int, Field(ge=1)] | None = None
    same: Mapping[str, Text] = {}
    numeric: bool = False
    weights: Mapping[Text, Weight] = {}
    shares: Mapping[Text, Share] = {}
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
        if len(self.categories) > MOST_CATEGORIES:
            raise ValueError(
                f"there are {len(self.categories):,} categories, of which at most {MOST_CATEGORIES:,} are taken; put "
                "rare ones together with same, or declare free text"
            )
        twice = [name for name, times in Counter(self.categories).items() if times > 1]
        if twice:
            raise ValueError(f"the category {min(twice)!r} is listed twice")
        wrong = [name for name in self.categories if formula_like(name)]
        if wrong:
            raise ValueError(f"the category {wrong[0]!r} looks like a formula; rename it in the table, or map it")
        unknown = sorted(set(self.same.values()) - set(self.categories))
        if unknown and self.buy is None:
            raise ValueError(f"same names {unknown[0]!r}, which is not in categories")
        _check_classes(self)
        both = sorted(set(self.same) & set(self.categories))
        if both:
            raise ValueError(f"{both[0]!r} is a category and is mapped by same as well")
        return self

    def _check_bought(self) -> None:
        if self.categories or self.room is not None:
            raise ValueError("give either categories, or buy")
        if self.weights or self.shares:
            raise ValueError("weights and shares are of categories that are known beforehand; list them")
        if self.unseen not in (None, "other"):
            raise ValueError("what is not among categories that are bought is `other`; leave out unseen, or list them")
        both = sorted(set(self.same) & set(self.same.values()))
        if both:
            raise ValueError(f"same maps {both[0]!r}, and maps others to it")

    def with_categories(self, names: Sequence[str]) -> Category:
        """The column with the bought categories. Every other value is `other`, because an error or a dropped row after
        the purchase would reveal that row."""
        assert self.buy is not None
        found = {"categories": tuple(names), "room": self.buy.most, "unseen": "other"}
        kept = {spelling: name for spelling, name in self.same.items() if name in set(names)}
        return Category.model_validate(self.model_dump(exclude={"buy"}) | found | {"same": kept})

    @property
    def width(self) -> int:
        """The encoded number of categories."""
        return len(self.categories) if self.room is None else self.room

    @property
    def codes(self) -> dict[str, int]:
        """The number of the category, for every spelling."""
        numbers = {name: number for number, name in enumerate(self.categories)}
        return numbers | {spelling: numbers[name] for spelling, name in self.same.items()}


class Boolean(Frozen):
    """True or false, yes or no, 1 or 0, in any case. `words`: what the table says for false and for true, in this
    order; they are read beside the usual spellings, and are the names of the classes, which are else "false" and
    "true". `weights` and `shares` are by these names."""

    type: Literal["boolean"] = "boolean"
    words: tuple[Text, Text] | None = None
    weights: Mapping[Text, Weight] = {}
    shares: Mapping[Text, Share] = {}
    missing: Missing | None = None
    unseen: Unseen | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Boolean:
        if self.words is not None:
            self._check_words(*map(_lowered, self.words))
        _check_classes(self)
        return self

    def _check_words(self, false: str, true: str) -> None:
        if not false.strip() or not true.strip() or false == true:
            raise ValueError("words are two different texts, for false and for true; upper and lower case do not count")
        if false in TRUE and true in FALSE:
            raise ValueError(
                f"words are for false and then for true; write them as [{self.categories[1]}, {self.categories[0]}]"
            )
        if false in TRUE or true in FALSE:
            word, read = (self.categories[0], "true") if false in TRUE else (self.categories[1], "false")
            listed = ", ".join(f'"{one}"' for one in self.categories)
            raise ValueError(
                f"words are for false and then for true, and {word!r} is always read as {read}: swap them, or, if it "
                f"means the other here, declare {{type: category, categories: [{listed}]}}"
            )
        wrong = [word for word in self.categories if formula_like(word)]
        if wrong:
            raise ValueError(f"the word {wrong[0]!r} looks like a formula; rename it in the table")

    @property
    def categories(self) -> tuple[str, str]:
        """The names of false and true."""
        return ("false", "true") if self.words is None else self.words

    @property
    def width(self) -> int:
        """The encoded number of categories."""
        return 2

    @property
    def codes(self) -> dict[str, int]:
        """The number of the category, for every spelling in lower case."""
        own = {_lowered(word): place for place, word in enumerate(self.categories)}
        return dict.fromkeys(FALSE, 0) | dict.fromkeys(TRUE, 1) | own
