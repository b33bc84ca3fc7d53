"""What processes met that made a mistake together, from the files that they wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path


def check_met(folder: Path, name: str, met: tuple[str, int], own: Mapping[str, str]) -> None:
    """Both processes met an error of these words after so many releases; none if there are no words. `own`: the kind of
    the error of the second process, where it has one of its own."""
    said, released = met
    for rank in range(2):
        kind, words, count = json.loads((folder / f"{name}.{rank}").read_text())
        if rank == 1 and name in own:
            assert kind == own[name]
            continue
        assert re.search(said, words), (name, rank, kind, words)
        assert (kind == "nothing") == (not said), (name, rank, kind, words)
        assert count == released, (name, rank)
        assert "a private row" not in words  # what a row may have put into an error
