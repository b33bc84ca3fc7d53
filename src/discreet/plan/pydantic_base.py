"""Errors of pydantic, and of keywords, as one line that names the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError

from discreet.core.errors import InputError
from discreet.sampling.record import Frozen as Frozen
from discreet.sampling.record import explain as explain

M = TypeVar("M", bound=BaseModel)
P = ParamSpec("P")
T = TypeVar("T")

_OURS = {
    "max_grad_norm": "clip_norm=",
    "l2_norm_clip": "clip_norm=",
    "batch_size": "batch=, the expected number of units in a batch",
    "expected_batch_size": "batch=, the expected number of units in a batch",
    "sample_rate": "batch=, the expected number of units in a batch: rate x population",
    "target_delta": "delta=",
    "target_epsilon": "the plan without it, and then call its calibrate(epsilon=...)",
    "epsilon": "the plan without it, and then call its calibrate(epsilon=...)",
}
"""Keywords of other libraries, and what is given here."""

_SAY = {
    "population": "population=1000, the size of the data set as the public may know it",
    "batch": "batch=100, the expected number of units in a batch",
    "delta": "delta=1e-5, say, far below 1 / population",
}
"""Keywords that are forgotten, and how to give them."""


def validate(model: type[M], data: object, where: str) -> M:
    """`data` as a `model`, or an `InputError` that names `where`, the field and the fault."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error, model)}") from None


def check_names(made_by: Callable[..., object], given: Iterable[str], fields: Sequence[str]) -> None:
    """Refuse arguments beside the named ones of a function and these `fields`, which it passes on."""
    named = [one.name for one in signature(made_by).parameters.values() if one.kind is not one.VAR_KEYWORD]
    for name in given:
        if name not in fields:
            raise InputError(f"plan: unknown argument {name!r}; known: {', '.join([*named, *fields])}")


def in_our_words(made_by: Callable[P, T]) -> Callable[P, T]:
    """Decorates a class method that hands arguments on to `make`: one that is missing or unknown is named in a line."""

    @wraps(made_by)
    def told(*given: P.args, **named: P.kwargs) -> T:
        plan: Any = given[0]
        more = signature(plan.make).parameters.values()
        taken = (*signature(made_by).parameters.values(), *more)
        closed = not any(one.kind is one.VAR_KEYWORD for one in more)
        _check(f"{plan.__name__}.{made_by.__name__}", taken, named, closed=closed)
        return made_by(*given, **named)

    return told


def _check(what: str, taken: tuple[Parameter, ...], given: Mapping[str, object], *, closed: bool) -> None:
    """`closed`: whether no other keywords are handed on."""
    known = {one.name: one for one in taken if one.kind is one.KEYWORD_ONLY}
    for name in (one for one in given if one not in known):
        if name == "target_epsilon" and "epsilon" in known:
            raise InputError(f"{what} takes no {name}; give epsilon=")
        if name in _OURS:
            raise InputError(f"{what} takes no {name}; give {_OURS[name]}")
        if closed:
            raise InputError(f"{what}: unknown argument {name!r}; known: {', '.join(known)}")
    missing = [name for name, one in known.items() if one.default is one.empty]
    missing = [name for name in missing if name not in given]
    if missing:
        raise InputError(f"{what} lacks {', '.join(missing)}; give {_SAY.get(missing[0], f'{missing[0]}=')}")
