"""Results of the checks before training, which tests that train the same model on rows of the same shape share.

The checks read no data, and a result is taken again only where all that it was computed from is the same bit by bit,
where nothing was warned of meanwhile, and where no test has replaced a function of the library. From its first patch of
anything else on, a test computes them afresh, and so do the tests of a file that imports a part of the checks.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from operator import is_
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
    """The functions and methods of these rooms, as they were before the first test after their module was loaded."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._loaded: tuple[int, str] = (0, "")
        self._found: list[tuple[Mapping[str, object], list[str], list[FunctionType]]] = []

    def note(self) -> None:
        """Look at what was loaded since, at a time when nothing is replaced."""
        for file in self._loaded_since():
            space = vars(sys.modules[file])
            self._note(space)
            for one in list(space.values()):
                # Of an optimizer's class torch replaces `step` when the first of its kind is made.
                if isinstance(one, type) and one.__module__ == file and not issubclass(one, Optimizer):
                    self._note(vars(one))
        self._seen |= sys.modules.keys()
        self._loaded = len(sys.modules), next(reversed(sys.modules))

    def are_kept(self) -> bool:
        """Whether nobody has put anything in the place of one; of a module that a test itself loads nobody knows."""
        if self._loaded_since():
            return False
        return all(all(map(is_, map(space.get, names), functions)) for space, names, functions in self._found)

    def _loaded_since(self) -> list[str]:
        if self._loaded == (len(sys.modules), next(reversed(sys.modules))):  # thousands are slow to look through
            return []
        return [name for name in sys.modules.keys() - self._seen if name.startswith(ROOMS)]

    def _note(self, space: Mapping[str, object]) -> None:
        found = {name: one for name, one in space.items() if type(one) is FunctionType}
        if found:
            self._found.append((space, list(found), list(found.values())))


FUNCTIONS = Functions()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Before fixtures, which may replace functions: in whatever order tests run, the first finds them as they are."""
    FUNCTIONS.note()


@contextmanager
def warned() -> Iterator[list[str]]:
    """The warnings that the library gives inside, whether anybody listens or not; they are given all the same."""
    logger, said = logging.getLogger("discreet"), list[str]()
    give = logger.warning

    def noted(line: str, *given: object) -> None:
        said.append(line)
        give(line, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logger, "warning", noted)
        yield said


class OfTheLibrary(KnownResults[Any]):
    """Remembers results of the library's own functions; others compute afresh, and nothing of theirs is remembered.
    Neither is a result with a warning, which would be given to the first that asks and to nobody after it."""

    def of(self, compute: Callable[[], Any], *given: object) -> Any:
        if not FUNCTIONS.are_kept():
            return compute()
        known = self._known
        with warned() as said:
            result = super().of(compute, *given)
        if said:
            self._known = known
        return result


class UntilAPatch(KnownResults[Any]):
    """Results that a test shares with others until its `monkeypatch` replaces an attribute or an item of anything."""

    def __init__(self, shared: KnownResults[Any], request: pytest.FixtureRequest) -> None:
        super().__init__(0)
        self._shared, self._request = shared, request

    def of(self, compute: Callable[[], Any], *given: object) -> Any:
        return compute() if self._patched() else self._shared.of(compute, *given)

    def _patched(self) -> bool:
        if "monkeypatch" not in self._request.fixturenames:
            return False
        patches = self._request.getfixturevalue("monkeypatch")
        return bool(patches._setattr or patches._setitem)


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
        if not tests_checks(request.module):
            for remembered, results in KNOWN.items():
                stack.enter_context(remembered.in_(UntilAPatch(results, request)))
        yield
