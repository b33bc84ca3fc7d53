"""Run the notebooks of docs/notebooks and keep their outputs: python scripts/notebooks.py [NAME ...]"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "docs" / "notebooks"


def executed(path: Path, folder: Path) -> Any:
    """The notebook at `path` with its outputs, run in `folder` by this interpreter; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # of this environment, for !discreet
    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, resources=where, coalesce_streams=True)
    client.execute(env=os.environ | {"PATH": commands, "XDG_DATA_HOME": str(folder / "share")})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran
    return notebook


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)
        print(path.name)


if __name__ == "__main__":
    main()
