"""Public names of a package that are loaded on first use (PEP 562), so that what needs few of them waits for few."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

_MEANS = {"TYPE_CHECKING", "listed", "on_first_use"}
"""Names that a package has for this alone."""


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. `homes`: for each public name the module that has it, relative to the package if
    it begins with a dot."""

    def load(name: str) -> Any:
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])  # Python says what may be meant
        return getattr(import_module(homes[name], package), name)

    return load


def listed(package: str, public: Iterable[str]) -> Callable[[], list[str]]:
    """The `__dir__` of a package: what it has, and its `public` names, which a shell completes before they are
    loaded."""

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public} - _MEANS)

    return names
