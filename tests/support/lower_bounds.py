"""The lower bound of a guarantee, for tests of plans that have one."""

from __future__ import annotations

from discreet.core.guarantee import Guarantee


def lower(found: Guarantee) -> float:
    """The lower bound of epsilon; a failure where none is known."""
    assert found.lower is not None
    return found.lower
