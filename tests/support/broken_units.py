"""Broken builds that protect rows where the plan says users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from broken_builds import broken, patched, summing

from discreet.clipping import Units
from discreet.training import drawing
from discreet.training.drawing import Draws

USER = {"unit": "user", "rows_per_unit": 2}


@broken("each row of a user is clipped by itself", "replay/", **USER)
def rows_clipped_alone() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        return sums(model, criterion, replace(chunk, units=None), clip)

    return summing(change)


@broken("a user's rows are added up after each is clipped, in vmap", "replay/", engine="vmap", **USER)
def rows_clipped_alone_by_vmap() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        return sums(model, criterion, replace(chunk, units=Units((1,) * len(chunk.inputs))), clip)

    return summing(change)


@broken("a user takes part with all rows", "draws", unit="user", rows_per_unit=1)
def all_rows_of_a_user() -> Any:
    def all_of(counts: Any, most: int, substream: Any) -> Any:
        return [np.arange(one) for one in counts]

    return patched((drawing, "places_within", all_of))


@broken("a user's rows are parted between two units of a chunk", "replay/", **USER)
def user_in_two_units() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        assert chunk.units is not None
        parts = tuple(part for size in chunk.units.sizes for part in ((size - 1, 1) if size > 1 else (size,)))
        return sums(model, criterion, replace(chunk, units=Units(parts)), clip)

    return summing(change)


@broken("rows are drawn, and the plan says users", "draws", **USER)
def rows_drawn() -> Any:
    real, generator = Draws._pieces, np.random.default_rng(0)

    def pieces(self: Any, drawn: Any, position: int) -> Any:
        also = generator.random(len(self._data)) < 0.1
        return real(self, np.union1d(drawn, np.flatnonzero(also)), position)

    return patched((Draws, "_pieces", pieces))
