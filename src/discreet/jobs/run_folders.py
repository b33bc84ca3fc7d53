"""Where jobs keep their runs: in a private folder beside the one that they publish to."""

from __future__ import annotations

from pathlib import Path

from discreet.core.disk import real

JOB = "job.json"
"""The job of a recipe or table, in the folder of its run."""


def named(folder: Path) -> Path:
    """The same folder; the working folder, `.`, by its name: nothing can be put in the place of a dot, or beside it."""
    return folder if folder.name else real(folder)


def run_folder(target: Path) -> Path:
    """The folder of the run that publishes to `target`."""
    return Path(f"{named(target)}.run")


def begun_folder(folder: Path, kept: str) -> Path:
    """`folder`; or the run folder beside it, if `folder` is the published one and has no file `kept`."""
    beside = run_folder(folder)
    return beside if not (folder / kept).is_file() and beside.is_dir() else folder
