"""Operators that make new tensors: constants, random numbers, 0, 1, 2, ..."""

from __future__ import annotations

from discreet.clipping.separation.labels import (
    EMPTY,
    MIXED,
    NUMBERS,
    SHARED,
    UNIFORM,
    Every,
    Label,
    Rows,
    sized,
)
from discreet.clipping.separation.registry import Given, entry_by_entry, fails, rule, sizes

_CONSTANT = ("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "scalar_tensor")
_EMPTY = ("empty", "new_empty", "empty_like", "empty_permuted")
_RANDOM = ("rand", "randn", "randint")
_LIKE = tuple(f"{name}_like" for name in ("zeros", "ones", "full", "rand", "randn", "randint"))
_FILLED = ("zero", "fill", "uniform", "exponential", "geometric", "cauchy", "log_normal", "random")

sizes("size", *_CONSTANT, *_RANDOM, *_EMPTY)
sizes("size", "affine_grid_generator")
sizes("size", "empty_strided", "new_empty_strided")
sizes("size", "view", "_unsafe_view", "reshape", "expand")
sizes("repeats", "repeat")
sizes("start end", "slice")
sizes("start length", "narrow")
sizes("split_size split_sizes", "split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
sizes("end", "arange")
sizes("N", "native_group_norm")

fails("linspace", "logspace", "randint_like")
fails("fill", by="value")
fails("bernoulli_", by="p")
fails("normal", by="std")


@rule(*_CONSTANT, *_RANDOM, *_LIKE)
def made(given: Given) -> Label:
    """One number throughout, or numbers drawn independently."""
    given.without_numbers()
    if not given.all_shared(*(one for one in given.tensors if not one.read)):
        return MIXED
    return UNIFORM if sized(given.shape, given.batch) else SHARED


@rule(*_EMPTY)
def empty(given: Given) -> Label:
    """Uninitialised memory, which may hold numbers of another row."""
    given.without_numbers()
    return EMPTY


@rule(*(f"{name}_" for name in _FILLED), "bernoulli_", "normal_", *_FILLED)
def filled(given: Given) -> Label:
    """Constants or random numbers, written over a tensor. A tensor with examples keeps its label."""
    first, *others = given.tensors
    if not given.all_shared(*others):
        return MIXED
    if isinstance(first.label, Rows) or any(len(one.shape) for one in others):
        return given.rows(first)
    return UNIFORM if sized(given.shape, given.batch) else SHARED


@rule("normal")
def normal(given: Given) -> Label:
    """Normals drawn independently, with a mean and a standard deviation for each entry or for all."""
    if not given.tensors:
        return UNIFORM if sized(given.shape, given.batch) else SHARED
    return entry_by_entry(given)


@rule("arange")
def arange(given: Given) -> Label:
    """0, 1, 2, ... up to a public number, or the numbers of the examples."""
    if not given.grows:
        return SHARED
    step = given["step"] or 1
    if given["start"] or type(step) is not int or given.shape != (given.batch,):
        return MIXED
    return NUMBERS if step == 1 else Every(step)


@rule("randperm", "eye", "linspace", "logspace", "tril_indices", "triu_indices")
def ordered(given: Given) -> Label:
    """Numbers that differ between places: only for public sizes and public ends."""
    shared = given.all_shared(*given.tensors)
    return SHARED if shared and not sized(given.shape, given.batch) else MIXED
