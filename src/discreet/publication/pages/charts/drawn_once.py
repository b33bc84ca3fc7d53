"""Charts are kept for a while: who publishes a run and verifies it needs each of them twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that a chart is drawn from, equal only if it is written alike: 1, 1.0 and True are not."""

    written: str
    values: tuple[Any, ...] = field(compare=False)


def drawn(chart: Callable[..., str], *values: Any) -> Markup:
    """A chart of these values, which are written out in full by `repr`."""
    return _drawn(chart, _Values(repr(values), values))


@lru_cache(maxsize=32)
def _drawn(chart: Callable[..., str], given: _Values) -> Markup:
    return Markup(chart(*given.values))
