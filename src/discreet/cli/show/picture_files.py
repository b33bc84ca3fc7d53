"""Pictures that commands draw, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discreet.core.disk import write_output
from discreet.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_target(path: Path) -> None:
    """Refuse a file that cannot be drawn to before anything is computed."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"--plot {path}: the name must end in .png or .svg")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--plot {path}: the folder {path.parent} does not exist; make it first")


def blank(width: float, height: float) -> Figure:
    """An empty picture, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, dpi: int = 100) -> None:
    """Write the picture in the place of what is there; the end of its name says of which kind it is."""
    kind = path.suffix.lower()[1:]
    write_output(path, lambda file: figure.savefig(file, format=kind, dpi=dpi), replace=True)
