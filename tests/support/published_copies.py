"""Fixtures: the folder that a run of the tiny problem published, and a copy of it for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from promises import published_folder


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the run published; a file may have one of its own."""
    return published_folder(tmp_path_factory.mktemp("original"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(original, tmp_path / "copy"))
