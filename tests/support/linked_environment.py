"""An environment of some installed packages and no others: a folder of links, for a Python without site-packages.

Nothing is downloaded. What is not named, or required by what is named, cannot be imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def link(names: Iterable[str], folder: Path) -> set[str]:
    """Links in `folder` to the packages of these distributions and of all that they require; their names."""
    waiting, found = [*names], set()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:  # of another system or version of Python
            continue
        found.add(name)
        _link(one, folder)
        waiting += required(one.requires or ())
    return found


def required(requirements: Iterable[str]) -> list[str]:
    """The distributions that are named, those of extras left out."""
    plain = (one for one in requirements if "extra ==" not in one)
    return [match[0] for one in plain if (match := _NAME.match(one)) is not None]


def _link(one: Distribution, folder: Path) -> None:
    tops = {path.parts[0] for path in one.files or () if path.parts[0] not in ("..", "__pycache__")}
    for top in sorted(tops):
        if not (folder / top).exists():
            (folder / top).symlink_to(Path(str(one.locate_file(top))).resolve())
