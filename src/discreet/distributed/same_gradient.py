"""Processes of a run compute the same function: they compare the clipped gradient of a random unit.

A unit that joins a batch moves those after it to other lanes. So processes that compute different functions would let
one unit move what all others contribute.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from discreet.core.errors import PrivacyViolation

_PURPOSE = "the gradient of a random unit"


class Talk(Protocol):
    """What `Ranks` offers for it."""

    @property
    def first(self) -> bool: ...

    def all_facts(self, purpose: str, fact: object) -> list[object]: ...

    def bytes_from_first(self, content: bytes | None) -> bytes: ...


def refuse_other_gradients(ranks: Talk, answer: Mapping[str, Tensor] | None, error: float | None) -> None:
    """`PrivacyViolation` in all processes unless all have the same gradient of a unit, of norm at most 1.

    They may differ by the float slack `error` in both; None is 0. Nothing is released.

    Digests are compared first; only what differs is sent. `answer`: by parameter; None if model or loss cannot take
    random rows.
    """
    own = {name: part.detach().cpu() for name, part in sorted((answer or {}).items())}
    told = ranks.all_facts(_PURPOSE, None if answer is None else [[name, _digest(part)] for name, part in own.items()])
    found = [None if one is None else dict(one) for one in told]  # type: ignore[call-overload]
    same = all((one is None) == (answer is None) and [*(one or ())] == [*own] for one in found)
    alike = ranks.all_facts(_PURPOSE, same and all(bool(torch.isfinite(part).all()) for part in own.values()))
    distance = _distance(ranks, own, found) if all(alike) else math.inf
    if any(ranks.all_facts(_PURPOSE, not distance <= 2 * (error or 0.0))):
        raise PrivacyViolation(
            "the processes of the run compute different gradients of the same random row; give all of them the same "
            "model, loss and kind of machine. Nothing was charged for a further step"
        )


def _distance(ranks: Talk, own: Mapping[str, Tensor], found: list[dict[str, str] | None]) -> float:
    """The distance to the gradient of the first process. All take the same way through it."""
    squares = 0.0
    for name, part in own.items():
        if len({one[name] for one in found if one is not None}) > 1:
            mine = part.reshape(-1).double().numpy()
            first = np.frombuffer(ranks.bytes_from_first(mine.tobytes() if ranks.first else None))
            squares += float(np.square(mine - first).sum()) if len(first) == len(mine) else math.inf
    return math.sqrt(squares)


def _digest(part: Tensor) -> str:
    """SHA-256 of type, shape and values: other than sums of them, it tells numbers in another order apart."""
    digest = hashlib.sha256(f"{part.dtype} {[*part.shape]} ".encode())
    digest.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
