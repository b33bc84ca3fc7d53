"""What model.json may say of a model for people: its title and use, and what it does on rows declared public.

Nothing of it is covered by the claim, and nothing of it comes from private rows: texts are the publisher's, figures are
computed from the released model.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from discreet.core.errors import InputError

Text = Annotated[str, StringConstraints(max_length=2000)]
Count = Annotated[int, Field(ge=0)]
Few = Field(default=(), max_length=1000)


class _Described(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class About(_Described):
    """`title` and `note`: the publisher's words. `date`: when it was published, as YYYY-MM-DD. `defaults`: a sentence
    for each setting that was chosen for the publisher."""

    title: Text | None = None
    note: Text | None = None
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")] | None = None
    defaults: tuple[Text, ...] = Few


class Cut(_Described):
    """A threshold: how many rows of the positive class, and how many others, score at least so much."""

    score: float
    found: Count
    false: Count


class Bin(_Described):
    """Rows with about one probability: its mean, how many rows there are, and of how many it was true."""

    said: float
    rows: Annotated[int, Field(ge=1)]
    true: Count


class Weight(_Described):
    """A column, and by how much the score is worse with its values shuffled; the deviation over the shuffles."""

    column: str
    loss: float
    deviation: float


class Effect(_Described):
    """The model's mean answer with a column set to each of some values."""

    column: str
    values: tuple[float | str, ...] = Few
    answers: tuple[float, ...] = Few


class OnPublicRows(_Described):
    """What a model does on `rows` that are declared public.

    `positive`: the class that `cuts` look for. `bins`: of its probability, or of the likeliest class where there are
    more than two. `errors`: level -> the absolute error that a new row stays below with that probability, of numbers.
    `weights`: of columns, by `score`. `effects`: on the probability of `positive`, or on the number.
    """

    rows: Annotated[int, Field(ge=1)]
    positive: str | None = None
    cuts: tuple[Cut, ...] = Few
    bins: tuple[Bin, ...] = Few
    errors: dict[str, float] = Field(default={}, max_length=20)
    score: Text | None = None
    weights: tuple[Weight, ...] = Field(default=(), max_length=100_000)
    effects: tuple[Effect, ...] = Few


M = TypeVar("M", bound=_Described)


def read(kind: type[M], facts: Any, where: str) -> M | None:
    """A part of model.json, None where it has none; `InputError` that names the field for anything else."""
    if facts is None:
        return None
    try:
        return kind.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in (where, *first["loc"]))
        raise InputError(f"model.json: {field}: {first['msg']}") from None
