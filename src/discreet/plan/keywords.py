"""Keywords of other libraries, and forgotten ones, in the words of this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from discreet.core.errors import InputError

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
_SAY = {
    "population": "population=1000, the size of the data set as the public may know it",
    "batch": "batch=100, the expected number of units in a batch",
    "delta": "delta=1e-5, say, far below 1 / population",
}


def in_our_words(made_by: Callable[P, T]) -> Callable[P, T]:
    """A class method that hands other arguments on to `make`, and says in one line which it lacks or does not take."""

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
