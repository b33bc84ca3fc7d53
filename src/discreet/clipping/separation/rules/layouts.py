"""Operators that read memory, or make it, by strides: which entries are whose is not to be told from shapes."""

from __future__ import annotations

import itertools

from discreet.clipping.separation.labels import EMPTY, MIXED, Label, sized
from discreet.clipping.separation.propagate import Mixes
from discreet.clipping.separation.registry import Given, rule


@rule("as_strided", "as_strided_copy", "as_strided_scatter", "_reshape_alias", "_reshape_alias_copy", "resize")
@rule("empty_quantized", "_empty_affine_quantized", "_empty_per_channel_affine_quantized")
def by_strides(given: Given) -> Label:
    """Any entries of the memory behind a tensor, or what it held before."""
    return MIXED


@rule("empty_strided", "new_empty_strided")
def strided(given: Given) -> Label:
    """Uninitialised memory whose entries lie one after the other in a batch of any size; others may overlap."""
    given.without_numbers()
    behind = itertools.accumulate(reversed(given.shape[1:]), lambda one, length: one * max(1, length), initial=1)
    in_order = tuple(given["stride"]) == tuple(behind)[::-1][: len(given.shape)]
    if not in_order or sized(given.shape, given.batch) not in ([], [0]):
        raise Mixes("memory is made in which entries may overlap (empty_strided); use empty")
    return EMPTY
