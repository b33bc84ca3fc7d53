"""Broken builds: ways to break the library, each planted by replacing a part of it, or in what a user gives to it.

Each is named by what is wrong. Those of one subject are in one file, `broken_*.py`, and `all_broken()` has all of them.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from audited_builds import build

from discreet.audit import Subject
from discreet.training.batch import Batch

FILES = (
    "noise",
    "mechanism",
    "sums",
    "engines",
    "draws",
    "charges",
    "clip_rules",
    "units",
    "given",
    "metrics",
    "lanes",
    "sites",
    "search",
)


@dataclass(frozen=True)
class Broken:
    """A broken build. `wrong`: one line. `plant`: breaks the library inside. `settings`: of the honest build that it is
    planted in. `found_by`: how the name of an outcome begins that finds it. `families`: in which it can be planted; ()
    for all. `notice`: it costs accuracy and no privacy, so it is to be noticed, and no finding."""

    name: str
    wrong: str
    plant: Callable[[], AbstractContextManager[Any]]
    found_by: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    notice: bool = False

    def subject(self, family: str | None = None, **more: Any) -> Subject:
        """What is audited; to be made and audited inside `plant`. The `search` of its settings is audited beside it."""
        settings = {name: one for name, one in self.settings.items() if name != "search"}
        return build(family or (self.families or ("numbers",))[0], **{**settings, **more})


BROKEN: dict[str, Broken] = {}


def broken(
    wrong: str, found_by: str, *, families: tuple[str, ...] = (), notice: bool = False, **settings: Any
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a generator function, or a function that returns a context, as what plants a broken build."""

    def register(plant: Callable[[], Any]) -> Callable[[], Any]:
        name = plant.__name__
        assert name not in BROKEN, name
        made = contextlib.contextmanager(plant) if inspect.isgeneratorfunction(plant) else plant
        BROKEN[name] = Broken(name, wrong, made, found_by, settings, families, notice)
        return plant

    return register


def all_broken() -> dict[str, Broken]:
    """Every broken build, by name."""
    for one in FILES:
        importlib.import_module(f"broken_{one}")
    return BROKEN


@contextlib.contextmanager
def patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """With parts replaced: (owner, name, new)."""
    with contextlib.ExitStack() as stack:
        for owner, name, new in changes:
            stack.enter_context(mock.patch.object(owner, name, new))
        yield


def summing(change: Callable[..., dict[str, Any]]) -> Any:
    """An engine replaced in steps by `change(engine's sums, model, criterion, chunk, clip)`."""
    real = Batch._add

    def add(self: Any, criterion: Any, chunk: Any) -> None:
        given, engine = self._context, self._context.engine

        def sums(*inside: Any) -> Any:
            return change(engine.clipped_sum, *inside)

        self._context = given._replace(engine=replace(engine, clipped_sum=sums))
        try:
            real(self, criterion, chunk)
        finally:
            self._context = given

    return patched((Batch, "_add", add))


def in_steps(*changes: tuple[Any, str, Any]) -> Any:
    """Parts replaced while a chunk of a step is computed, and at no other time."""
    real = Batch._add

    def add(self: Any, *given: Any) -> None:
        with patched(*changes):
            real(self, *given)

    return patched((Batch, "_add", add))
