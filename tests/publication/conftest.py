"""Published folders that are trained once in a file, copied for each forgery, and recomputed no more than needed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from promises import published_folder

from discreet.verification.checks import fixed_plan, random_stopping, tuning


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run of the tiny problem published; a file may have one of its own."""
    return published_folder(tmp_path_factory.mktemp("original"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(original, tmp_path / "copy"))


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
