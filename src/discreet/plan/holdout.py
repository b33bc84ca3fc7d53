"""Which units are held out of training: a function of each unit's own identifier, and of nothing else.

So adding, removing or blanking a unit moves no other unit between the parts, and two data sets that differ in one unit
differ in one part only. Releases about the other part have the same law on both, given the releases before: the privacy
loss of a run is that of the part in which the data sets differ. Under add/remove and zero-out a run therefore costs as
much as the dearer of its parts (McSherry 2009, theorem 4, is the pure case; here it holds step by step, since metrics
on one part depend on releases about the other). A replaced unit may have another identifier and change parts, so under
replace-one the parts are composed.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, SupportsFloat

from pydantic import Field

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.plan.pydantic_base import Frozen


class Holdout(Frozen):
    """A `share` of all units is never trained on; `salt` is public and chosen before the data is seen."""

    share: Annotated[float, Field(gt=0, lt=1)]
    salt: str = "discreet holdout 1"

    def holds_out(self, identifier: int | str) -> bool:
        """Whether the unit with this identifier is held out: its hash lies in the first `share` of all hashes."""
        numerator, denominator = self.share.as_integer_ratio()
        return identifier_hash(identifier, self.salt) * denominator < numerator << 64

    def units(self, training: float) -> float:
        """The expected number of held-out units beside `training` units that are trained on."""
        return training * self.share / (1 - self.share)


def identifier_hash(identifier: int | str, salt: str) -> int:
    """The hash of a unit's identifier: one of 2^64 equally likely numbers from 0 on."""
    kind = "text" if isinstance(identifier, str) else "number"
    return int.from_bytes(hashlib.sha256(f"{salt}\n{kind}\n{identifier}".encode()).digest()[:8])


def as_holdout(given: float | str | Holdout | None) -> Holdout | None:
    """A share (0.1, or "10%") as a `Holdout`."""
    if given is None or isinstance(given, Holdout):
        return given
    share = percent_read(given)
    if isinstance(share, str) or not isinstance(share, SupportsFloat):
        raise InputError(f"holdout is a share, 0.1 or '10%', got {given!r:.80}")
    return Holdout(share=checks.open_unit("holdout", share))


def training_units(population: float, holdout: Holdout | None) -> float:
    """The expected number of units to train on, of a declared population."""
    return population if holdout is None else population * (1 - holdout.share)


def percent_read(given: object) -> object:
    """A text such as "10%" as the number 0.1; anything else as it is."""
    if isinstance(given, str) and given.strip().endswith("%"):
        try:
            return float(given.strip()[:-1]) / 100
        except ValueError:
            return given
    return given
