"""Tests of privacy, for anyone's training: `assert_private`, and what it is made of. Evidence, never a guarantee.

A plugin of pytest comes with it: `@pytest.mark.private` (`testing.pytest_plugin`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.testing.assertions import assert_private as assert_private
    from discreet.testing.made_neighbours import Neighbours as Neighbours
    from discreet.testing.made_neighbours import canaries as canaries
    from discreet.testing.made_neighbours import neighbours as neighbours
    from discreet.testing.step_checks import StepClaim as StepClaim

_HOMES = {
    "Neighbours": "made_neighbours",
    "StepClaim": "step_checks",
    "assert_private": "assertions",
    "canaries": "made_neighbours",
    "neighbours": "made_neighbours",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """The public name; torch is imported with the first of them, and not when pytest starts."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"discreet.testing.{_HOMES[name]}"), name)
