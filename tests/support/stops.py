"""Runs that die in a step."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from discreet.core.errors import Interrupted
from discreet.training import step


@contextmanager
def dying(after: int) -> Iterator[None]:
    """Inside, a run takes so many steps and must die in the next one, before its optimizer has seen the release."""
    real, taken = step.apply, itertools.count()

    def failing(*args: Any) -> None:
        if next(taken) == after:
            raise Interrupted("here", 2)
        real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "apply", failing)
        with pytest.raises(Interrupted):
            yield
