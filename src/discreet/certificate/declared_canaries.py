"""Canaries as a certificate declares them: made-up texts among the training rows, public and no private units.

Which texts they are is declared before the first step, so nobody chooses afterwards which of them are shown. Of the
texts that each is ranked among only the number is declared: exposure is the publisher's word in any case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from discreet.certificate.canonical import canonical
from discreet.certificate.described import MOST, OfTexts
from discreet.core import checks
from discreet.core.errors import InputError


@dataclass(frozen=True, slots=True)
class DeclaredCanaries:
    """`count`: texts that are training rows, each a unit of its own. `others`: how many texts might have been chosen in
    the place of each. `sha256`: of the texts, in order."""

    count: int
    others: int
    sha256: str

    def __post_init__(self) -> None:
        checks.count("count", self.count)
        checks.count("others", self.others)

    @classmethod
    def of(cls, texts: Sequence[str], others: int) -> DeclaredCanaries:
        """The declaration of these texts; `InputError` if one is there twice: two rows of one text are two units, and
        what the guarantee says of one unit would be shown beside them; or if there are more than model.json shows."""
        if len(texts) > MOST:
            raise InputError(f"at most {MOST:,} canaries can be shown beside the model, got {len(texts):,}")
        if len(set(texts)) < len(texts):
            twice = next(text for place, text in enumerate(texts) if text in texts[:place])
            raise InputError(f"canaries must be different texts, and {twice[:60]!r} is there twice; leave one out")
        return cls(len(texts), others, _digest(texts))

    def as_dict(self) -> dict[str, Any]:
        """The section of a certificate."""
        return asdict(self)


def canaries_fault(
    declared: Mapping[str, Any] | None, population: float, held_out: bool, shown: OfTexts | None
) -> str | None:
    """The first difference between the canaries that a certificate declares and those in model.json; None if none.

    `declared`: the section of the certificate. `population`: the declared number of units, in which they are counted.
    `held_out`: whether the plan has a holdout, in which some would be.
    """
    found = () if shown is None else shown.canaries
    if declared is None:
        return "model.json shows canaries that the certificate does not declare" if found else None
    if not declared["count"] < population:
        return f"all of the {population:g} units that the plan counts are canaries ({declared['count']})"
    if held_out:
        return "the plan holds units out, and so perhaps canaries, which would not be trained on"
    if len(found) != declared["count"] or any(one.others != declared["others"] for one in found):
        return f"model.json does not show the exposure of each of the {declared['count']} canaries"
    if _digest([one.text for one in found]) != declared["sha256"]:
        return "the canaries in model.json are not those that were declared before training"
    if len({one.text for one in found}) < len(found):
        return "a canary is there twice, which makes it more than one unit"
    return None


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256(canonical(list(texts))).hexdigest()
