"""Checks that all processes of a run compute the same clipped gradient of a random unit.

A unit that joins a batch moves those after it to other lanes. So processes that compute different functions would let
one unit move what all others contribute.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from discreet.core.errors import DiscreetError, PrivacyViolation

_PURPOSE = "the gradient of a random unit"


class Talk(Protocol):
    """The part of `Ranks` that is used here."""

    @property
    def first(self) -> bool: ...

    def all_facts(self, purpose: str, fact: object) -> list[Any]: ...

    def bytes_from_first(self, content: bytes | None) -> bytes: ...

    def leave(self) -> None: ...


def refuse_other_gradients(ranks: Talk, answer: Mapping[str, Tensor] | None, error: float | None) -> None:
    """`PrivacyViolation` in all processes unless all have the same finite gradient of a unit.

    They may differ by twice the float slack `error`; None is 0. A process that fails here leaves the others, which find
    out at once. Nothing is released.
    """
    try:
        same = _same(ranks, answer, error)
    except DiscreetError:  # which all of them raise
        raise
    except BaseException:
        ranks.leave()
        raise
    if not same:
        raise PrivacyViolation(
            "the processes of the run compute different gradients of the same random row; give all of them the same "
            "model, loss and kind of machine. Nothing was charged for a further step"
        )


def _same(ranks: Talk, answer: Mapping[str, Tensor] | None, error: float | None) -> bool:
    """Whether all processes have the same gradient.

    Digests are compared first, and only tensors whose digests differ are sent. Whether a message follows depends only
    on what all were told, so no process waits for one that is not sent.
    """
    own = {name: part.detach().cpu() for name, part in sorted((answer or {}).items())}
    shapes = None if answer is None else [[name, [*part.shape]] for name, part in own.items()]
    finite = all(bool(torch.isfinite(part).all()) for part in own.values())
    told = ranks.all_facts(_PURPOSE, [shapes, finite, [_digest(part) for part in own.values()]])
    if any(one[0] != told[0][0] or not one[1] for one in told):
        return False
    distance = _distance(ranks, own, [one[2] for one in told])
    return all(ranks.all_facts(_PURPOSE, distance <= 2 * (error or 0.0) < math.inf))


def _distance(ranks: Talk, own: Mapping[str, Tensor], digests: list[list[str]]) -> float:
    """The distance to the gradient of the first process."""
    squares = 0.0
    for part, found in zip(own.values(), zip(*digests, strict=True), strict=True):
        if len({*found}) > 1:
            mine = part.reshape(-1).double().numpy()
            first = np.frombuffer(ranks.bytes_from_first(mine.tobytes() if ranks.first else None))
            squares += float(np.square(mine - first).sum())
    return math.sqrt(squares)


def _digest(part: Tensor) -> str:
    """SHA-256 of the type and the values. Unlike a sum, it tells the same numbers in another order apart."""
    digest = hashlib.sha256(str(part.dtype).encode())
    digest.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
