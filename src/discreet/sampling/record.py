"""The base of the records by which plans say how batches are drawn; each sampler has its record."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.imports.plug_ins import refuse_late
from discreet.sampling.largest import ROOM, largest_batch
from discreet.sampling.options import Draws, Options
from discreet.sampling.sampler import Sampler

Rate = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
LARGEST_WHOLE = 2**63 - 1


if TYPE_CHECKING:  # so that the types of all fields are seen
    from pydantic._internal._model_construction import ModelMetaclass as _SaidInOneLine
else:

    class _SaidInOneLine(type(BaseModel)):
        """The call of a record's class. What `model_validate` reads, and records inside others, do not come by here."""

        def __call__(cls, *args, **fields):
            try:
                return super().__call__(*args, **fields)
            except ValidationError as error:
                raise InputError(f"{cls.__name__}: {explain(error, cls)}") from None


class Frozen(BaseModel, metaclass=_SaidInOneLine):
    """Base of everything that is read from files: immutable, and unknown fields are refused.

    Made in Python, a record that cannot be is an `InputError` of one line; `model_validate` raises pydantic's own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _no_number_in_disguise(cls, data: object) -> object:
        """Refuse a text or a truth value where a number is meant: pydantic would read one out of it; and a whole number
        that is none of the machine's, which overflows where it meets a fraction."""
        if isinstance(data, Mapping):
            for name, value in data.items():
                if type(value) is int and abs(value) > LARGEST_WHOLE:
                    raise ValueError(f"{name}: must be a number below 2^63")
            for name in _numbers(cls) & data.keys():
                if isinstance(data[name], str | bool):
                    raise ValueError(f"{name}: must be a number, got {data[name]!r:.80}")
        return data


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault of a validation error in one line."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        within = _at(model, first["loc"][:-1])
        return f"unknown key {field!r}" + ("" if within is None else f"; known: {', '.join(within.model_fields)}")
    if first["type"] == "union_tag_invalid":
        facts, where = first["ctx"], f"{field}: " if field else ""
        what = facts["discriminator"].strip("'")
        return f"{where}unknown {what} {facts['tag']!r}; known: {facts['expected_tags']}"
    message = re.sub(r"\b0\.0{5,}\d+", lambda tiny: f"{float(tiny[0]):g}", first["msg"].removeprefix("Value error, "))
    if not first["loc"]:
        return message
    if first["type"] == "value_error" and ", got " in message:
        return f"{field}: {message}"
    if first["type"] == "missing":
        return f"{field}: is needed, and is not there"
    return f"{field}: {message[0].lower()}{message[1:]}, got {first['input']!r:.80}"


def _at(model: type[BaseModel], path: Sequence[object]) -> type[BaseModel] | None:
    """The model at a path of fields, keys and kinds (`columns.age.number`); None where several can be there."""
    found: list[type[BaseModel]] = [model]
    for name in path:
        fields = [one.model_fields[str(name)] for one in found if str(name) in one.model_fields]
        if fields:
            found = list(_models(fields[0].annotation))
        else:
            found = [one for one in found if name in _kinds(one)] or found
    return found[0] if len(found) == 1 else None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _kinds(model: type[BaseModel]) -> list[object]:
    """The values of `kind` and `type` by which a model is known, where it has these fields."""
    return [model.model_fields[name].default for name in ("kind", "type") if name in model.model_fields]


@cache
def _numbers(model: type[BaseModel]) -> frozenset[str]:
    """The fields of a model that hold a number, or nothing, and take nothing else: a share may be a text ("10%")."""
    validators = model.__pydantic_decorators__.field_validators.values()
    others = {name for one in validators if one.info.mode != "after" for name in one.info.fields}
    found = {
        name: set(_leaves(field.annotation))
        for name, field in model.model_fields.items()
        if name not in others and not any(isinstance(one, BeforeValidator) for one in field.metadata)
    }
    return frozenset(name for name, kinds in found.items() if kinds & {int, float} and kinds <= {int, float, NoneType})


def _leaves(annotation: Any) -> Iterator[object]:
    """The types that a type is made of, without containers."""
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        if any(isinstance(one, BeforeValidator) for one in parts[1:]):
            yield object  # it may read anything
        yield from _leaves(parts[0])
    elif get_origin(annotation) in (Union, UnionType):
        for part in parts:
            yield from _leaves(part)
    else:
        yield annotation


@dataclass(frozen=True, slots=True)
class Draw:
    """The sampler of a step, the public divisor of its noisy sum, and a public bound on the size of its batch."""

    sampler: Sampler
    divisor: float
    largest_batch: int


class SamplingRecord(Frozen):
    """Base of all kinds; its defaults suit kinds under which the size of the data set is private.

    Besides its fields in plan.yaml a kind has words for pages, and its options on the command line.
    """

    model_config = ConfigDict(defer_build=True)  # most of them are never read from a file: help shows their words
    ADJACENCIES: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
    """The adjacencies under which a theorem covers the kind; the first is the default of the command line."""
    OVERFLOWS: ClassVar[bool] = True
    """Whether a batch may exceed `largest_batch`, with a probability of at most `OVERFLOW`."""
    SIZE_IS_PUBLIC: ClassVar[bool] = False
    """Whether the number of units must be known exactly."""
    INDEPENDENT: ClassVar[bool] = False
    """Whether units are drawn independently of each other, so that those of each site may be drawn by themselves."""
    EVENT: ClassVar[type | None] = None
    """The type of the event of a draw; None if there is only the event of the step itself."""
    SENTENCE: ClassVar[str]
    """One sentence for pages. It may name the unit (`{one}`, `{many}`), `{population}` and the fields of the record,
    of a list how long it is."""
    WHO: ClassVar[str]
    """A few words about the draw of an event; they may name its fields, and `{steps}`, the steps that it covers."""
    OPTION: ClassVar[str]
    """The name of the kind in `--sampling`."""
    TAKES: ClassVar[Mapping[str, str]] = {}
    """Options that not all kinds take, with the meaning of each."""
    if TYPE_CHECKING:
        kind: str

    def sampler(self, population: float) -> Sampler:
        """The sampler whose draws have exactly the law that its events name."""
        raise NotImplementedError

    def expected_batch(self, population: float) -> float:
        """The public divisor of the noisy sum."""
        raise NotImplementedError

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """The draws that the options of a command describe; `InputError` if one is missing."""
        raise InputError(f"--sampling {cls.OPTION} is for plans; write it into plan.yaml")

    @property
    def strategy(self) -> tuple[int, ...]:
        """How noise is correlated over steps: the first column of the strategy matrix (`mechanism.correlated`)."""
        return (1,)

    def largest_batch(self, population: float) -> int:
        """A public bound on the size of a batch."""
        return largest_batch(self.expected_batch(population) / population, population)

    def epoch(self, population: float) -> float:
        """Steps of an epoch: the period of the sampler if it is longer than 1, else population / expected batch."""
        period = self.sampler(population).period
        return period if period > 1 else population / self.expected_batch(population)

    def draw(self, population: float) -> Draw:
        """Sampler, divisor and largest batch together."""
        return Draw(self.sampler(population), self.expected_batch(population), self.largest_batch(population))

    def sizes(self, population: float) -> tuple[int, int]:
        """The least and the largest number of rows that the data may have."""
        return 1, int(ROOM * population)


class PublicSize(SamplingRecord):
    """Base of kinds under which the size of the data set is public and batches have a fixed size."""

    OVERFLOWS = False
    SIZE_IS_PUBLIC = True
    batch: Count

    def expected_batch(self, population: float) -> float:
        return float(self.batch)

    def largest_batch(self, population: float) -> int:
        return self.batch

    def sizes(self, population: float) -> tuple[int, int]:
        return whole(population), whole(population)


SAMPLERS: dict[str, type[SamplingRecord]] = {}
"""The record types by kind, in the order of the schema."""


def register(record: type[SamplingRecord]) -> type[SamplingRecord]:
    """Put a record into `SAMPLERS`, before `Plan` is imported, which reads the table then; usable as decorator."""
    kind = record.model_fields["kind"].default
    if kind in SAMPLERS:
        raise InputError(f"the sampler {kind!r} is {SAMPLERS[kind].__name__} already; take another kind")
    refuse_late("samplers", kind)
    SAMPLERS[kind] = record
    return record


def whole(population: float) -> int:
    """The public number of rows as an int; `InputError` if it is not whole."""
    if population != math.floor(population):
        raise InputError(f"population must be the public number of rows here, a whole number, got {population!r}")
    return int(population)
