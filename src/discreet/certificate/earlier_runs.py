"""Private runs that released weights which another run starts from.

A certificate is about its own run alone and takes the weights at its start as public, so it names such runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.adjacency import Adjacency, Unit
from discreet.core.rounding import places_up


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A private run: its name in its ledger, and its guarantee. `epsilon` is None if there is none. `ValueError` or
    `TypeError` for what no certificate would say."""

    run: str
    epsilon: float | None
    delta: float
    adjacency: str
    unit: str

    def __post_init__(self) -> None:
        Adjacency(self.adjacency), Unit(self.unit)
        epsilon = 0.0 if self.epsilon is None else self.epsilon
        if not (re.fullmatch("[!-~]{1,200}", self.run) and 0 <= epsilon < math.inf and 0 < self.delta < 1):
            raise ValueError("no such run")

    @property
    def line(self) -> str:
        """The run in words."""
        least = "no finite epsilon" if self.epsilon is None else f"epsilon at most {places_up(self.epsilon)}"
        return f"{self.run} ({least} at delta {self.delta!r}, {self.adjacency}, unit {self.unit})"

    @classmethod
    def named(cls, section: Iterable[Mapping[str, Any]] | None) -> tuple[EarlierRun, ...]:
        """The runs that the section `warm_start` of a certificate names; () without it."""
        return () if section is None else tuple(cls(**one) for one in section)

    @classmethod
    def of_certificate(cls, facts: Mapping[str, Any]) -> EarlierRun:
        """The run of a certificate, by its claim."""
        claim, run = facts["claim"], facts["ledger"]["entries"][0]["run"]
        return cls(run, 1.0 * claim["epsilon"], claim["delta"], claim["adjacency"], claim["unit"])


def together(*several: Iterable[EarlierRun]) -> tuple[EarlierRun, ...]:
    """All runs, each once, by name; of two guarantees of one run the weaker."""
    found: dict[str, EarlierRun] = {}
    for one in (one for runs in several for one in runs):
        found[one.run] = max(one, found.get(one.run, one), key=_weakness)
    return tuple(found[name] for name in sorted(found))


def _weakness(one: EarlierRun) -> tuple[float, float]:
    return math.inf if one.epsilon is None else one.epsilon, one.delta


_RELEASED: dict[str, tuple[EarlierRun, ...]] = {}
"""By the digest of a tensor: the runs that released it, as far as this process has seen. A digest, and not the object,
finds weights that were copied, saved and read again."""


def remember(digests: Iterable[str], runs: Iterable[EarlierRun]) -> None:
    """Note that the tensors with these digests were released by `runs`."""
    named = tuple(runs)
    for one in digests:
        _RELEASED[one] = together(_RELEASED.get(one, ()), named)


def remembered() -> bool:
    """Whether weights of any private run are known in this process."""
    return bool(_RELEASED)


def released_by(digests: Iterable[str]) -> tuple[EarlierRun, ...]:
    """The runs that released any of the tensors with these digests."""
    return together(*(_RELEASED.get(one, ()) for one in digests))
