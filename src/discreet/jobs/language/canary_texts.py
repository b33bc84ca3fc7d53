"""Canaries of `discreet train`: made-up texts beside the private ones, and what the released model knows of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from torch import Tensor

from discreet.certificate.described import OfTexts
from discreet.core.errors import InputError
from discreet.core.guarantee import Guarantee
from discreet.data.private.groups import identifiers_of
from discreet.language import Canaries
from discreet.publication.pages.measured_words import canaries as beside_the_bound

Encode = Callable[[Sequence[str]], tuple[Tensor, Tensor]]
"""From texts to inputs and targets, as for training."""

TEMPLATE = "My secret number is {}."
_OTHERS, _DIGITS = 1000, 6


def made_up(template: str | None, count: int, base: str) -> Canaries:
    """`count` texts. Which numbers are in them is decided by `base`, the hash of the weights that training starts from:
    a model that is trained on again gets others."""
    seed = int(base[:16], 16)
    return Canaries.made_up(template or TEMPLATE, count=count, others=_OTHERS, digits=_DIGITS, seed=seed)


def check_distinct(canaries: Canaries, encode: Encode) -> None:
    """Refuse texts that are the same to the model: of these, none could be known better than another."""
    inputs, targets = encode([*canaries.inserted, *canaries.others])
    rows = {(bytes(one.numpy()), bytes(other.numpy())) for one, other in zip(inputs, targets, strict=True)}
    if len(rows) < len(targets):
        raise InputError(
            "the model reads two canaries as the same tokens: its tokenizer has no tokens for the digits, or --length "
            "cuts off the numbers; give a larger --length, or another text with --canary"
        )


def with_own_units(units: Sequence[object], canaries: int) -> list[int]:
    """The unit of each private row as a number, and a further one for each canary."""
    numbers: dict[int | str, int] = {}
    own = [numbers.setdefault(unit, len(numbers)) for unit in identifiers_of(units, len(units))]
    return [*own, *range(len(numbers), len(numbers) + canaries)]


def summary(texts: OfTexts, guarantee: Guarantee) -> list[str]:
    """One line on the exposure of the canaries, beside what the guarantee allows; [] without canaries."""
    found = beside_the_bound(texts, guarantee.epsilon, guarantee.delta)
    if not found:
        return []
    mean, worst = statistics.mean(one.exposure for one in found), max(found, key=lambda one: one.exposure)
    return [
        f"canaries: {len(found)} made-up texts, exposure {mean:.1f} bits on average (never seen: 1.4; known by heart: "
        f"{worst.highest:.1f}), {worst.exposure:.1f} at most; for a single one of them the guarantee allows that much "
        f"with probability {worst.chance} at most. This is evidence, and no guarantee"
    ]
