"""The audit of a build in words: its checks in groups, for report and card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from discreet.certificate.described import Measured

DONE: Mapping[str, str] = {
    "replay": "two trainings on neighbouring data, with the same randomness: how far one unit moves what is released",
    "noise": "scale, law and independence of the noise",
    "draws": "who is drawn, with whom and when again, against the law of the sampler",
    "charges": "whether each release is charged as planned, before a row is read",
    "metrics": "how far one unit moves a private metric, and its noise",
    "search": "how many runs a search makes, of which candidates, what it charges, and which run comes out",
    "game": "many releases with a loud unit and without: what a step gives away at least",
}
"""A group of checks -> what is done in it."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of checks. `parts`: how many there are. `least`: the least p of them; None without chance."""

    name: str
    done: str
    parts: int
    least: float | None


def groups(measured: Measured | None) -> list[Group]:
    """The checks by the first word of their names, in order; none without an audit."""
    found: dict[str, list[float | None]] = {}
    for one in () if measured is None else measured.checks:
        found.setdefault(re.split(r"[/,]", one.name)[0], []).append(one.p)
    return [
        Group(name, DONE.get(name, ""), len(every), min((p for p in every if p is not None), default=None))
        for name, every in found.items()
    ]
