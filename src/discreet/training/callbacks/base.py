"""Callbacks follow a run. They receive public facts and released values, and nothing else.

A callback cannot reach the model, the data or the clock: the duration of a step would reveal the size of its private
batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, cast

from torch import nn

from discreet.core.errors import InputError, kind_of
from discreet.core.guarantee import Guarantee
from discreet.plan import AdaptivePlan, Plan
from discreet.training.public.monitor import Watch


@dataclass(frozen=True, slots=True)
class Opening:
    """The facts at the beginning of a run: the plan as JSON, and the guarantee of the whole plan."""

    plan: Mapping[str, Any]
    guarantee: Guarantee

    @property
    def settings(self) -> dict[str, str | float | int]:
        """The plan's plain settings by dotted name, with epsilon and the method, for a table of parameters."""
        found = dict(_flat(self.plan, ""))
        return found | {"epsilon": self.guarantee.epsilon, "method": self.guarantee.method}


class StopTraining(Exception):
    """Raised by a callback that is told of a step: the run ends there, and its result is that of the steps so far.

    As with early stopping, the claim is that of the whole plan. What a callback looks at is public or was released; it
    should not look at a clock, as the duration of a step depends on the size of its private batch.
    """


@dataclass(frozen=True, slots=True)
class Told:
    """The facts after a step: charged steps, all steps, and new metrics, public or bought."""

    step: int
    steps: int
    metrics: Mapping[str, float]


class Callback(Protocol):
    """Follows one run: entered when the run begins, told after each step, and exited when the run ends, even by an
    error.

    `StopTraining` from `tell` ends the run with a result. Any other exception of a callback ends it between two steps,
    with an error; charged steps stay charged.
    """

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self, opening: Opening) -> None:
        """The run begins."""

    def tell(self, told: Told) -> None:
        """A step is over."""


class ToldAlone:
    """The part of a callback that opens and closes nothing, and is told of steps alone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def begin(self, opening: Opening) -> None:
        """Nothing is made of the beginning."""


@dataclass(frozen=True, slots=True)
class Called(ToldAlone):
    """A function as a callback: called with what is `told` after each step."""

    function: Callable[[Told], object]

    def tell(self, told: Told) -> None:
        """Call the function."""
        self.function(told)


Callbacks = Iterable[Callback | Callable[[Told], object]]
"""Callbacks, and functions of what is told after a step."""


def as_callbacks(given: Callbacks) -> list[Callback]:
    """Callbacks as they are, and functions as callbacks. `InputError` for what is neither, before a step is charged."""
    found: list[Callback] = []
    if callable(given) or hasattr(given, "tell"):
        raise InputError("callbacks is a single one; give a list: callbacks=[...]")
    if not isinstance(given, Iterable):
        raise InputError(f"callbacks cannot be {kind_of(given)}; give a list: callbacks=[...]")
    for one in given:
        if isinstance(one, type) or not (hasattr(one, "tell") or callable(one)):
            raise InputError(f"a callback has the methods of discreet.training.Callback, or is a function; got {one!r}")
        found.append(_followed(cast(Callback, one)) if hasattr(one, "tell") else _called(one))
    return found


def _followed(callback: Callback) -> Callback:
    lacks = [name for name in ("begin", "__enter__", "__exit__") if not hasattr(callback, name)]
    if lacks:
        raise InputError(
            f"the callback {type(callback).__name__} has no {', '.join(lacks)}; it needs all methods of "
            "discreet.training.Callback, or give a function: callbacks=[callback.tell]"
        )
    return callback


def _called(function: Callable[[Told], object]) -> Called:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        raise InputError(
            f"the callback {name} must take one argument: what is told after a step (discreet.training.Told)"
        ) from None
    except ValueError:  # built-in functions may have no signature
        pass
    return Called(function)


def _leaving(callback: Callback) -> Callable[..., None]:
    """Leaves a callback at the end of a run. It cannot hide an error: the run would have no result."""

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with suppress(StopTraining):  # the run is over
            callback.__exit__(kind, error, trace)

    return leave


@contextmanager
def telling(
    callbacks: Sequence[Callback], plan: Plan | AdaptivePlan, watch: Watch, model: nn.Module
) -> Iterator[Callable[[int], bool]]:
    """Yields a function to call with the number of charged steps, after each step and at the end. It returns whether a
    callback asks to end the run; the others are told nevertheless.

    Metrics that `watch` holds at entry were told in an earlier attempt. Gradients that a callback leaves in `model`, as
    it does when it teaches another model by this one, are dropped.
    """
    with ExitStack() as stack:
        for callback in callbacks:
            callback.__enter__()
            stack.push(_leaving(callback))
        if callbacks:
            opening = Opening(plan.model_dump(mode="json"), plan.guarantee())
            try:
                for callback in callbacks:
                    callback.begin(opening)
            except StopTraining:
                raise InputError(
                    "StopTraining ends a run after a step, so a callback raises it when it is told of one, not at the "
                    "beginning; no step was taken"
                ) from None
        evaluations, private_metrics, last = len(watch.evaluations), len(watch.bought), 0

        def tell(step: int) -> bool:
            nonlocal evaluations, private_metrics, last
            metrics: dict[str, float] = {}
            for evaluation in watch.evaluations[evaluations:]:
                metrics |= {f"public/{name}": value for name, value in evaluation.metrics.items()}
            for one in watch.bought[private_metrics:]:
                metrics |= {f"bought/{one.metric}": one.value, f"bought/{one.metric}_deviation": one.deviation}
            if step == last and not metrics:
                return False
            evaluations, private_metrics, last = len(watch.evaluations), len(watch.bought), step
            enough = False
            for callback in callbacks:
                try:
                    callback.tell(Told(step, plan.charges, metrics))
                except StopTraining:
                    enough = True
            if callbacks:
                model.zero_grad(set_to_none=True)
            return enough

        yield tell


def _flat(value: Any, name: str) -> Iterator[tuple[str, str | float | int]]:
    """Plain values of nested mappings and lists, by dotted name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _flat(inner, f"{name}.{place}")
    elif isinstance(value, str | int | float):
        yield name, value
