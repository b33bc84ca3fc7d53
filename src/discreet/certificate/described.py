"""The parts of model.json for people: the model's title and use, its behaviour on rows declared public, and what an
audit of the build measured.

The claim does not cover them, and they do not come from private rows: texts are the publisher's, figures are computed
from the released model or from rows that are made up.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from discreet.core.errors import InputError

Text = Annotated[str, StringConstraints(max_length=2000)]
Count = Annotated[int, Field(ge=0)]
MOST = 1000
"""The most entries of a list in model.json."""

Few = Field(default=(), max_length=MOST)


class _Described(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class About(_Described):
    """`title` and `note`: the publisher's words. `date`: of publishing, as YYYY-MM-DD. `defaults`: a sentence for each
    setting that the library chose. `base_model`: the name of the model below adapters."""

    title: Text | None = None
    note: Text | None = None
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")] | None = None
    defaults: tuple[Text, ...] = Few
    base_model: Text | None = None


class Cut(_Described):
    """A threshold, with the numbers of rows of the positive class and of other rows that score at least as much."""

    score: float
    found: Count
    false: Count


class Bin(_Described):
    """Rows with about the same predicted probability: its mean, their number, and how many predictions were true."""

    said: float
    rows: Annotated[int, Field(ge=1)]
    true: Count


class Weight(_Described):
    """A column, the loss of score when its values are shuffled, and the deviation over shuffles."""

    column: str
    loss: float
    deviation: float


class Effect(_Described):
    """The model's mean answer with a column set to each of some values."""

    column: str
    values: tuple[float | str, ...] = Few
    answers: tuple[float, ...] = Few


class OnPublicRows(_Described):
    """A model's behaviour on `rows` rows declared public.

    `positive`: the class of `cuts`. `bins`: of its probability, or of the likeliest class if there are more than two.
    `errors`, for numbers: level -> the absolute error that a new row stays below with that probability. `weights`: of
    columns, by `score`. `effects`: on the probability of `positive`, or on the number.
    """

    rows: Annotated[int, Field(ge=1)]
    positive: str | None = None
    cuts: tuple[Cut, ...] = Few
    bins: tuple[Bin, ...] = Few
    errors: dict[str, float] = Field(default={}, max_length=20)
    score: Text | None = None
    weights: tuple[Weight, ...] = Field(default=(), max_length=100_000)
    effects: tuple[Effect, ...] = Few


class Exposed(_Described):
    """A made-up text among the training rows, a canary: the released model has a smaller loss on only `better` of
    `others` texts that might have been chosen in its place. `text` and `others` are public."""

    text: Text
    better: Count
    others: Annotated[int, Field(ge=1, le=10**9)]

    @model_validator(mode="after")
    def _some_of_the_others(self) -> Exposed:
        if self.better > self.others:
            raise ValueError(f"better is a number of the {self.others} others, got {self.better}")
        return self


class OfTexts(_Described):
    """The task of a language model, and its inputs.

    `task`: its name in `discreet.language.TASKS`. `text` and `target`: the columns that it was trained on. `classes`:
    their names, in the order of the scores. `length`: the most tokens of a text. `canaries`: those that were looked at.
    """

    task: Text
    text: Text | None = None
    target: Text | None = None
    classes: tuple[Text, ...] = Few
    length: Annotated[int, Field(ge=1)] | None = None
    canaries: tuple[Exposed, ...] = Few


class Check(_Described):
    """One check of an audit, as it is called there, and what was seen. `p`: how often a sound build looks like this or
    worse; None where nothing is left to chance."""

    name: Text
    said: Text
    p: Annotated[float, Field(ge=0, le=1)] | None = None


class Measured(_Described):
    """An audit of the build, on made-up rows and before the run, that found nothing.

    `date`: as YYYY-MM-DD. `false_alarm`: how often a sound build fails all of it. No verifier relies on it.
    """

    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]
    false_alarm: Annotated[float, Field(gt=0, lt=1)]
    checks: Annotated[tuple[Check, ...], Field(min_length=1, max_length=1000)]


M = TypeVar("M", bound=_Described)


def read(kind: type[M], facts: Any, where: str) -> M | None:
    """A part of model.json; None if it is missing; an `InputError` that names the field if it is malformed."""
    if facts is None:
        return None
    try:
        return kind.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in (where, *first["loc"]))
        raise InputError(f"model.json: {field}: {first['msg']}") from None
