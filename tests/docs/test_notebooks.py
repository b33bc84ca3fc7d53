"""The notebooks run, and their outputs are kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
PATHS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def kinds(notebook: Any) -> list[list[str]]:
    """Of each code cell, the kinds of its outputs."""
    return [[one.output_type for one in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_as_it_is_kept(path: Path, tmp_path: Path) -> None:
    """An error in a cell is raised; a cell shows something where the kept one does."""
    import nbformat  # here, as it takes longer to load than any page to read
    from notebooks import NOTEBOOKS, executed

    assert path.parent == NOTEBOOKS
    kept = nbformat.read(path, as_version=4)
    assert any(kinds(kept))
    assert kinds(executed(path, tmp_path)) == kinds(kept)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_names_no_machine(path: Path) -> None:
    text = path.read_text()
    assert len(text) < 300_000
    assert "/tmp" not in text
    assert "/home" not in text
    assert '"ename"' not in text
