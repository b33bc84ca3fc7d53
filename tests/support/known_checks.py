"""Results of the checks before training, which tests that train the same model on rows of the same shape share.

The checks read no data, and a result is taken again only where all that it was computed from is the same bit by bit,
and where no test has replaced a function of the library. A test that patches anything else computes them afresh, and
so do the tests of a file that imports a part of the checks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import pytest
from torch.optim import Optimizer

from discreet.clipping.separation import KnownResults
from discreet.training.preflight.engine_check import CHECKED
from discreet.training.preflight.model_check import TRIED_MODELS

ROOMS = tuple(f"discreet.{room}." for room in ("clipping", "core", "data", "methods", "randomness", "training"))
"""What the checks are made of."""


class Functions:
    """The functions and methods of these rooms, as they were when their module was loaded."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._found: list[tuple[Mapping[str, object], str, FunctionType]] = []

    def are_kept(self) -> bool:
        """Whether nobody has put anything in the place of one."""
        for file in [name for name in sys.modules if name.startswith(ROOMS) and name not in self._seen]:
            self._seen.add(file)
            space = vars(sys.modules[file])
            self._note(space)
            for one in list(space.values()):
                # Of an optimizer's class torch replaces `step` when the first of its kind is made.
                if isinstance(one, type) and one.__module__ == file and not issubclass(one, Optimizer):
                    self._note(vars(one))
        return all(space.get(name) is one for space, name, one in self._found)

    def _note(self, space: Mapping[str, object]) -> None:
        self._found += [(space, name, one) for name, one in space.items() if type(one) is FunctionType]


FUNCTIONS = Functions()


class OfTheLibrary(KnownResults[Any]):
    """Remembers results of the library's own functions; others compute afresh, and nothing of theirs is remembered."""

    def of(self, compute: Callable[[], Any], *given: object) -> Any:
        return super().of(compute, *given) if FUNCTIONS.are_kept() else compute()


KNOWN = {remembered: OfTheLibrary(64) for remembered in (CHECKED, TRIED_MODELS)}


@cache
def tests_checks(file: ModuleType) -> bool:
    """Whether a file of tests is about the checks themselves."""
    names = (
        one.__name__ if isinstance(one, ModuleType) else getattr(one, "__module__", "") for one in vars(file).values()
    )
    return any(isinstance(name, str) and name.startswith("discreet.training.preflight.") for name in names)


@pytest.fixture(autouse=True)
def _known_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    with ExitStack() as stack:
        if not ("monkeypatch" in request.fixturenames or tests_checks(request.module)):
            for remembered, results in KNOWN.items():
                stack.enter_context(remembered.in_(results))
        yield
