"""Warm starts: which private runs released the weights that another run starts from.

A certificate is about its own run alone and takes the weights at its start as public, so it names such runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.html import rounded_up


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A private run: its name in its ledger, and its guarantee. `epsilon` is None if there is none."""

    run: str
    epsilon: float | None
    delta: float
    adjacency: str
    unit: str

    @property
    def line(self) -> str:
        """The run in words."""
        least = "no finite epsilon" if self.epsilon is None else f"epsilon at most {rounded_up(self.epsilon)}"
        return f"{self.run} ({least} at delta {self.delta:g}, {self.adjacency}, unit {self.unit})"

    @classmethod
    def named(cls, section: Iterable[Mapping[str, Any]] | None) -> tuple[EarlierRun, ...]:
        """The runs that the section `warm_start` of a certificate names; () without it."""
        return tuple(cls(**one) for one in section or ())

    @classmethod
    def of_certificate(cls, facts: Mapping[str, Any]) -> tuple[EarlierRun, ...]:
        """The run of a certificate, and the runs that it started from."""
        claim, run = facts["claim"], facts["ledger"]["entries"][0]["run"]
        own = cls(run, claim["epsilon"], claim["delta"], claim["adjacency"], claim["unit"])
        return together((own,), cls.named(facts.get("warm_start")))


def together(*several: Iterable[EarlierRun]) -> tuple[EarlierRun, ...]:
    """All runs, each once, by name."""
    found = {one.run: one for runs in several for one in runs}
    return tuple(found[name] for name in sorted(found))


_RELEASED: dict[str, tuple[EarlierRun, ...]] = {}
"""By the digest of a tensor: the runs that released it, as far as this process has seen. A digest, and not the object,
finds weights that were copied, saved and read again; noise makes chance matches impossible."""


def remember(digests: Iterable[str], runs: Iterable[EarlierRun]) -> None:
    """Note that the tensors with these digests come from `runs`."""
    named = tuple(runs)
    for one in digests:
        _RELEASED[one] = together(_RELEASED.get(one, ()), named)


def released_by(digests: Iterable[str]) -> tuple[EarlierRun, ...]:
    """The runs that released any of the tensors with these digests."""
    return together(*(_RELEASED.get(one, ()) for one in digests))
