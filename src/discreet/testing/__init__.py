"""Tests of privacy, for anyone's training: `assert_private`, and what it is made of. Evidence, never a guarantee.

A plugin of pytest comes with it: `@pytest.mark.private` (`testing.pytest_plugin`). Names, and torch with the first of
them, are loaded on first use, and not when pytest starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use

if TYPE_CHECKING:
    from discreet.testing.assertions import assert_private as assert_private
    from discreet.testing.made_neighbours import Neighbours as Neighbours
    from discreet.testing.made_neighbours import canaries as canaries
    from discreet.testing.made_neighbours import neighbours as neighbours
    from discreet.testing.step_checks import StepClaim as StepClaim

_HOMES = {
    "Neighbours": ".made_neighbours",
    "StepClaim": ".step_checks",
    "assert_private": ".assertions",
    "canaries": ".made_neighbours",
    "neighbours": ".made_neighbours",
}

__all__ = [*_HOMES]

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
