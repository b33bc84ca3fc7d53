"""The words of report and card for what was measured: checks of an audit by group, and the exposure of canaries."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from discreet.certificate.described import Measured, OfTexts
from discreet.publication.pages.formats import percent_up

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


@dataclass(frozen=True, slots=True)
class Canary:
    """`exposure`: log2 of the number of texts that might have been chosen, over the rank of this one, in bits.
    `highest`: the exposure of rank one. `chance`: the most that the guarantee leaves to an exposure this high."""

    text: str
    exposure: float
    highest: float
    chance: str


def canaries(language: OfTexts | None, epsilon: float, delta: float) -> list[Canary]:
    """The canaries of a language model beside the bound.

    Without this row the model would not depend on which of the n texts was chosen, and by symmetry the text would have
    rank r or better with probability at most r / n. With it, at most e^epsilon r / n + delta.
    """
    found = []
    for one in () if language is None else language.canaries:
        share = (one.better + 1) / (one.others + 1)
        chance = 1.0 if epsilon + math.log(share) >= 0 else min(1.0, math.exp(epsilon) * share + delta)
        found.append(Canary(one.text, -math.log2(share), math.log2(one.others + 1), percent_up(chance)))
    return found
