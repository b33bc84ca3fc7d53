"""A folder with centered tables, for tests that ask for it."""

from pathlib import Path

import pytest
from centered_tables import write_centered_tables


@pytest.fixture
def centered_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder: empty but for these tables."""
    monkeypatch.chdir(tmp_path)
    write_centered_tables()
