"""What the pages call the unit of a claim: a row, or a person with all of that person's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """Words for one kind of unit. `neighbours` and `size` go by adjacency."""

    unit: str
    one: str
    many: str
    was: str
    """The words after "whether your" in a sentence about somebody's data."""
    adds: str
    others: str
    replaced: tuple[str, str]
    """Those whose data was replaced by somebody else's, and those whose was not."""
    several: str
    """The meaning of the promise for a person with more than one unit."""
    neighbours: Mapping[str, str]
    size: Mapping[str, str]


ROW = Words(
    unit="one row",
    one="row",
    many="rows",
    was="row was",
    adds="row <em>adds</em>",
    others="every other row",
    replaced=("whose row was replaced by another", "whose row was used as it is"),
    several="A person with several rows is protected less",
    neighbours={
        "add_remove": "one row is added or removed",
        "zero_out": "one row is replaced by a blank that contributes nothing",
        "replace_one": "one row is replaced by any other row",
    },
    size={
        "add_remove": "The exact number of rows is private as well.",
        "zero_out": "The number of rows is taken to be public.",
        "replace_one": "The number of rows is taken to be public.",
    },
)

PERSON = Words(
    unit="one person's rows",
    one="person",
    many="people",
    was="rows were",
    adds="rows <em>add</em>, all of them together",
    others="all rows of everybody else",
    replaced=("whose rows were replaced by others", "whose rows were used as they are"),
    several="A person whose rows have several identifiers is protected less",
    neighbours={
        "add_remove": "all rows of one person are added or removed",
        "zero_out": "all rows of one person are replaced by a blank that contributes nothing",
        "replace_one": "all rows of one person are replaced by any other rows",
    },
    size={
        "add_remove": "The exact number of people is private as well, and so is how many rows each has.",
        "zero_out": "The number of people is taken to be public; how many rows each has is private.",
        "replace_one": "The number of people is taken to be public; how many rows each has is private.",
    },
)


def words_for(unit: str) -> Words:
    """The words for a unit as certificates name it."""
    return PERSON if unit == "user" else ROW
