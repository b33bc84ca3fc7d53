"""Passes in step: all processes gather the weights of a model at the same time, in one order.

A pass over a chunk gathers the weights of one unit after the other, forwards and backwards: the *script*, which is
noted on random rows before the first step. Nobody can gather alone. So before each pass the processes tell each other
what they want, and whoever has nothing to compute gathers along; there are as many passes as the process with most of
them needs, and nobody counts beforehand. The same holds for sums, which are added up when no process wants a pass: who
has none adds zeros.

A pass of this process whose model fails on a row, or runs something else than the script, ends here, but not for the
others: what was left to gather is gathered. So whether it failed does not show in what they compute, and none waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol, TypeVar

from torch import Tensor

from discreet.core.errors import InputError
from discreet.distributed.weight_shards import WeightShards

T = TypeVar("T")


class Wanted(StrEnum):
    """The next thing that a process asks all processes to do together."""

    PASS = "a pass"
    SUM = "a sum"
    NOTHING = "nothing more in this step"


class OutOfStep(Exception):
    """The model runs its modules in another order than it did on random rows."""


class Talk(Protocol):
    """The exchange of requests between processes (`team.Team` implements it)."""

    def wanted(self, what: str) -> list[str]:
        """The requests of all processes, by rank; raises the failure of a process that failed."""

    def hold(self, *, within: bool) -> None:
        """Note that the others wait within a pass or a sum, where they do not hear of a failure; or no longer."""


class Lockstep:
    """The passes of this process among those of all."""

    def __init__(self, shards: WeightShards, talk: Talk) -> None:
        self.shards, self._talk = shards, talk
        self._script: list[int] = []
        self._noting = False
        self._place: int | None = None  # in the script, while a pass is open
        self._let_go: Callable[[], None] = lambda: None
        self._failure: BaseException | None = None
        self.adds: Callable[[Mapping[str, Tensor] | None], None] | None = None
        """Adds the sums of all processes, those of this one or none; of the step that is open."""

    def note(self, run: Callable[[], None]) -> None:
        """Take the script from what `run` gathers in one pass; every process does so at the same time."""
        self._script, self._noting = [], True
        try:
            run()
        finally:
            self._noting = False
        self.settle()

    def begin(self, let_go: Callable[[], None]) -> None:
        """Begin a pass, when all do; one that is open ends before. `let_go`: called at the end of it."""
        self.finish()
        self._until(Wanted.PASS)
        self._talk.hold(within=True)
        self._place, self._let_go = 0, let_go

    def gathered(self, unit: int) -> dict[str, Tensor]:
        """The weights of a unit, in the pass that is open. `OutOfStep` unless the script says so."""
        if self._noting:
            self._script.append(unit)
        place = self._place
        if place is None or place >= len(self._script) or self._script[place] != unit:
            raise OutOfStep
        self._place = place + 1
        return self._said(lambda: self.shards.gathered(self.shards.units[unit]))

    def finish(self) -> None:
        """End the pass that is open, if one is: gather what is left of the script."""
        if self._place is None:
            return
        place, self._place = self._place, None
        self._let_go()
        self._along(place)
        self._talk.hold(within=False)

    def add(self, sums: Mapping[str, Tensor]) -> None:
        """Add sums of this process to those of the others, when no process wants a pass."""
        self.finish()
        self._until(Wanted.SUM)
        self._add(sums)

    def settle(self) -> None:
        """Take part in what others compute, until nobody wants anything more."""
        self.finish()
        self._until(Wanted.NOTHING)

    def close(self) -> None:
        """End all passes: the weights are whole again."""
        self._failure = InputError(
            "the weights of the run were put together for its result; resume the run to take further steps"
        )

    def _until(self, own: Wanted) -> None:
        """Wait for the turn of what this process wants, and do meanwhile what others want."""
        while True:
            told = self._said(lambda: self._talk.wanted(own))
            turn = next(one for one in Wanted if one in told)
            if turn is own:
                return
            if turn is Wanted.SUM:
                self._add(None)
                continue
            self._talk.hold(within=True)
            self._along(0)
            self._talk.hold(within=False)

    def _add(self, sums: Mapping[str, Tensor] | None) -> None:
        assert self.adds is not None  # a step is open in all processes, or in none
        adds = self.adds
        self._talk.hold(within=True)
        self._said(lambda: adds(sums))
        self._talk.hold(within=False)

    def _along(self, place: int) -> None:
        for unit in self._script[place:]:
            self._said(lambda unit=unit: self.shards.gathered(self.shards.units[unit]))  # type: ignore[misc]

    def _said(self, talk: Callable[[], T]) -> T:
        """Talk with the others. What fails there is not of a row: it is raised again by all that comes after it."""
        if self._failure is not None:
            raise self._failure
        try:
            return talk()
        except BaseException as error:
            self._failure = error
            raise
