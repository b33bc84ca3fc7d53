"""The columns of UCI Adult by its documentation, and the bins of its numbers. Nothing here is taken from rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

MISSING = "?"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of words, or of numbers in bins; `size` codes, the last of which is for what is not documented.

    Bin i of a number holds values from edges[i - 1] up to, but without, edges[i].
    """

    words: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """The number of codes."""
        return (len(self.words) or len(self.edges) + 1) + 1

    def code(self, field: str) -> int | None:
        """The code of a field; None if it should be a number and is not."""
        if self.words:
            return self.words.index(field) if field in self.words else self.size - 1
        if field == MISSING:
            return self.size - 1
        try:
            return bisect_right(self.edges, float(field))
        except ValueError:
            return None


def _words(text: str) -> Column:
    return Column(words=tuple(text.split()))


def _every(step: int, low: int, high: int) -> tuple[float, ...]:
    return tuple(float(edge) for edge in range(low, high + 1, step))


NAMES = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
)
"""The fields of a line, in order; the class follows."""

COLUMNS: Mapping[str, Column] = {
    "age": Column(edges=(*_every(3, 20, 65), 70.0, 75.0)),
    "workclass": _words(
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
    ),
    "education": _words(
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
        "Doctorate 5th-6th Preschool"
    ),
    "education_num": Column(edges=_every(1, 2, 16)),
    "marital_status": _words(
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": _words(
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
    ),
    "relationship": _words("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
    "race": _words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    "sex": _words("Female Male"),
    "capital_gain": Column(edges=(1.0, *_every(500, 1000, 10_000), 15_000.0, 20_000.0, 50_000.0)),
    "capital_loss": Column(edges=(1.0, *_every(100, 1000, 2600), 3000.0)),
    "hours_per_week": Column(edges=(*_every(5, 10, 40), 41.0, *_every(5, 45, 60), 70.0, 80.0)),
    "native_country": _words(
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
        "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
    ),
}
"""The columns that can be used, with the vocabulary of adult.names; all but fnlwgt, a weight of the census."""
