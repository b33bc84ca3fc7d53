"""Published folders that are trained once, copied for each forgery, and recomputed no more than needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from published_copies import folder, original  # noqa: F401

from discreet.verification.checks import fixed_plan, random_stopping, tuning


@pytest.fixture(scope="module")
def recomputed_once() -> Iterator[None]:
    """Most forgeries leave the events alone: the same question about epsilon is answered once in a file."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((fixed_plan, "decide"), (tuning, "decide"), (random_stopping, "decide_search")):
            patch.setattr(module, name, _remembering(getattr(module, name)))
        yield


def _remembering(real: Callable[..., Any]) -> Callable[..., Any]:
    answers: dict[str, Any] = {}

    def remembered(*question: Any) -> Any:
        key = repr(question)
        if key not in answers:
            answers[key] = real(*question)
        return answers[key]

    return remembered
