"""Models that keep the last row, or a count, where it is hard to see, and use it late; see `mixing_modules`."""

from __future__ import annotations

import array
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mixing_modules import HIDDEN, Two
from torch import Tensor, nn

LATE = 270
"""Rows, after which a memory is used: more than a model meets in the checks before a run."""


@dataclass(slots=True)
class Slots:
    """A count of rows and an activation."""

    rows: int = 0
    last: Tensor | None = None


class Keeps(Two):
    """Two layers, with a memory of some kind between them. It counts no rows of its own."""

    make: Callable[[], Any]
    use: Callable[[Any, Tensor], Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.kept = type(self).make()

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(type(self).use(self.kept, torch.relu(self.first(x))))
        return output


KEEPS: dict[str, type[nn.Module]] = {}


def keeps(make: Callable[[], Any]) -> Callable[[Callable[[Any, Tensor], Tensor]], None]:
    """Enter a model with such a memory."""

    def enter(use: Callable[[Any, Tensor], Tensor]) -> None:
        name = use.__name__.replace("_", " ")
        KEEPS[name] = type(name.title().replace(" ", ""), (Keeps,), {"make": staticmethod(make), "use": use})

    return enter


@keeps(Slots)
def slots(kept: Slots, h: Tensor) -> Tensor:
    before, kept.last = kept.last, h.detach().mean(0)
    kept.rows += len(h)
    return h if before is None or kept.rows <= LATE else h - before


@keeps(itertools.count)
def a_count(kept: Any, h: Tensor) -> Tensor:
    rows = next(kept)
    return h * (1 + rows % 7) if rows > LATE else h


@keeps(lambda: array.array("d", [0.0] * (HIDDEN + 1)))
def an_array(kept: Any, h: Tensor) -> Tensor:
    before = torch.tensor(kept[1:])
    kept[0] += len(h)
    kept[1:] = array.array("d", h.detach().mean(0).tolist())
    return h - before if kept[0] > LATE else h


@keeps(bytearray)
def bytes_that_grow(kept: bytearray, h: Tensor) -> Tensor:
    kept.append(int(h.detach().mean() > 0.5))
    return h * (1 + sum(kept[-20:])) if len(kept) > LATE else h


@keeps(lambda: functools.partial(len, []))
def a_partial(kept: Any, h: Tensor) -> Tensor:
    rows = kept.args[0]
    rows.append(h.detach().mean(0))
    return h - rows[-2] if kept() > LATE else h


@keeps(lambda: iter(range(10**6)))
def an_iterator(kept: Any, h: Tensor) -> Tensor:
    rows = next(kept)
    return h * (1 + rows % 7) if rows > LATE else h


@keeps(lambda: np.array([0, None], dtype=object))
def objects_in_an_array(kept: Any, h: Tensor) -> Tensor:
    before, kept[1] = kept[1], h.detach().mean(0)
    kept[0] += len(h)
    return h if before is None or kept[0] <= LATE else h - before


@keeps(lambda: torch.zeros(5000))
def a_large_tensor(kept: Tensor, h: Tensor) -> Tensor:
    before = kept[1 : 1 + HIDDEN].clone()
    kept.data[0] += len(h)
    kept.data[1 : 1 + HIDDEN] = h.detach().mean(0)
    return h - before if kept[0] > LATE else h


@keeps(lambda: [np.random.RandomState(0), 0])
def a_generator_of_its_own(kept: Any, h: Tensor) -> Tensor:
    drawn = kept[0].rand()
    return h * (1 + 5 * (drawn > 0.9)) if kept[0].get_state()[2] > 100 else h


class Late(Two):
    """A buffer that is written through `.data`, late and now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.zeros(HIDDEN))

    def between(self, h: Tensor) -> Tensor:
        if self.rows > 1000 and self.calls % 3 == 0:
            self.bank.data.copy_(h.detach().mean(0) * 5)
        return h - self.bank
