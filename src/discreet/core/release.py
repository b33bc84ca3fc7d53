"""Values that pass between clipping, mechanism, ledger and optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from discreet.core import checks
from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.core.events import Event, steps_of


@dataclass(frozen=True, slots=True)
class Share:
    """The numbers of a sum that one of several processes has: those of `parts`, pairs (first, after the last), one
    after the other, of `size` in all. `handed_out` makes of the noisy ones, shape (n,), the tensors that this process
    steps with: a conversation of all processes. A share of NaN tells them that the sum cannot be used, and raises
    `PrivacyViolation` in all of them."""

    parts: tuple[tuple[int, int], ...]
    size: int
    handed_out: Callable[[Array], Mapping[str, Array]]


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """A sum over units, one array per name, with the bound that one unit's contribution obeys.

    Every value in float64 is a multiple of `grid`, a public power of two; values in float32 become such multiples when
    they are released. `sensitivity` bounds how far any one unit moves the sum, in joint L2 norm over all tensors; it
    covers NaN input, rounding to the grid and float slack. With a `share`, `tensors` has one array: what this process
    has of the sum, whose sensitivity is that of the whole.
    """

    tensors: Mapping[str, Array]
    sensitivity: float
    grid: float
    share: Share | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", checks.positive("sensitivity", self.sensitivity))
        object.__setattr__(self, "grid", checks.positive("grid", self.grid))
        if math.frexp(self.grid)[0] != 0.5:
            raise InputError(f"grid must be a power of two, got {self.grid!r}")


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that an event was charged, durably, before its noise was drawn.

    `attempt` counts the starts of the run, `position` the charged steps of the plan from 0. `event` is what was
    charged; if it covers several steps (an epoch), `index` is the step's place among them.
    """

    run: str
    attempt: int
    position: int
    event: Event
    index: int = 0

    @property
    def release(self) -> Event:
        """The release that this step is allowed."""
        return steps_of(self.event)[self.index]


@dataclass(frozen=True, slots=True)
class Release:
    """Noisy tensors with the event that describes them and the receipt that paid for them.

    Only functions in `discreet.mechanism` make one. Optimizers, policies, callbacks and loggers accept
    nothing else, so nothing unpaid can reach them. With a `share`, `tensors` has one array: what this process has of
    the release.
    """

    tensors: Mapping[str, Array]
    event: Event
    receipt: Receipt
    share: Share | None = None
