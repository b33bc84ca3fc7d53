"""Canaries: units made to move a sum further than they may, each by another carelessness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discreet.audit.builds.made_up import MadeUp, Maker, Rows, joined

LOUD, LONG, HUGE, OVERFLOWING = 30.0, 1e6, 1e12, 1e38
LABELS = 10
"""The most labels that have a loud unit each."""

_LARGEST = 3e38
"""Single precision holds numbers up to 3.4e38."""


@dataclass(frozen=True, slots=True, eq=False)
class Canary:
    """A made-up unit, by the name of what it is made for."""

    name: str
    inputs: Tensor
    targets: Tensor


def canaries(maker: Maker, base: MadeUp, classes: int | None) -> list[Canary]:
    """Canaries beside the rows `base`.

    | name        | what it is made for                                                                 |
    |-------------|-------------------------------------------------------------------------------------|
    | ordinary    | any sum                                                                             |
    | twin        | rows that occur already: deduplicated, cached, looked up                            |
    | loud        | gradients that are clipped                                                          |
    | long, huge  | norms that lose their digits, or overflow in half precision                         |
    | overflowing | gradients that are not finite                                                       |
    | zero        | lengths of nothing: division by zero, normalisation                                 |
    | mislabelled | large losses                                                                        |
    | far off     | a target far away, where targets are numbers                                        |
    | one token   | texts and categories: one value again and again; the largest one; zeros as in padding |
    | many rows   | users with more rows than a step may use                                            |
    | loud user   | users all of whose rows are loud, and the same                                      |

    `classes`: above the labels, where targets are classes.
    """
    return [Canary(name, *rows) for name, rows in _rows(maker, base, classes)]


def label_canaries(maker: Maker, base: MadeUp, classes: int | None, signs: Sequence[float] = (1.0,)) -> list[Canary]:
    """A loud unit of each label, `LABELS` of them at most, spread evenly: made for a class that is treated apart. Each
    has a row of its own, as a model that gives a row its label surely has no gradient there; `signs`: for each label
    one unit with the row times each of them. `classes`: as in `canaries`; none without."""
    found = []
    for label in sorted({round(one) for one in np.linspace(0, classes - 1, min(classes, LABELS))}) if classes else ():
        x, y = maker.rows(1, 200 + label)
        numbers = x.is_floating_point() or x.is_complex()
        for sign in signs if numbers else (1.0,):
            row = _times(x, sign * LOUD) if numbers else torch.full_like(x, int(x.flatten()[0]))
            name = f"loud, label {label}" + ("" if sign > 0 else ", negative")
            count = 1 if base.users is None else max(1, maker.largest - 1)
            found.append(Canary(name, *joined([(row, torch.full_like(y, label))] * count)))
    return found


def _rows(maker: Maker, base: MadeUp, classes: int | None) -> Iterator[tuple[str, Rows]]:
    (x, y), twin = maker.rows(1, 99), base.unit(0)
    yield "ordinary", (x, y)
    yield "twin", twin
    if x.is_floating_point() or x.is_complex():
        for name, scale in (("loud", LOUD), ("long", LONG), ("huge", HUGE), ("overflowing", OVERFLOWING)):
            yield name, (_times(x, scale), y)
        yield "zero", (torch.zeros_like(x), y)
    else:
        top = 255 if x.dtype == torch.uint8 else maker.tokens - 1
        values = {"one token": int(x.flatten()[0]), "largest token": top, "zero": 0}
        for name, value in values.items():
            yield name, (torch.full_like(x, value), y)
    if classes is not None:
        yield "mislabelled", (twin[0], (twin[1] + 1) % classes)
    elif y.is_floating_point():
        yield "far off", (x, _times(torch.ones_like(y), 1e4))
    if base.users is not None:
        yield "many rows", maker.rows(2 * maker.largest, 98)
        row, target = maker.rows(1, 97)  # the same row again and again, so that gradients of rows add up
        loud = _times(row, LOUD) if x.is_floating_point() else row
        # No more rows than a step may use: a choice among them would change which rows are chosen of other users.
        yield "loud user", joined([(loud, target)] * max(1, maker.largest - 1))


def _times(rows: Tensor, scale: float) -> Tensor:
    if rows.is_complex():
        return rows * min(scale, 1e18)
    return (rows.double() * scale).clamp(-_LARGEST, _LARGEST).to(rows.dtype)
