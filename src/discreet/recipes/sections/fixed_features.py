"""The section of fixed features: front ends side by side, computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.data import Split
from discreet.features import FRONT_ENDS, Beside, Deskew, precompute
from discreet.features.precompute import Precomputed
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Positive


class Features(Frozen):
    """A front end by name, its arguments as further keys, and its share of the squared norm of a row of features.

    `deskew`: every image is made upright first.
    """

    model_config = Frozen.model_config | {"extra": "allow"}
    name: str
    share: Positive = 1.0
    deskew: bool = False


def named(value: object) -> object:
    """`features: scattering` for `features: [{name: scattering}]`."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    for one in listed:
        name = one if isinstance(one, str) else one.get("name") if isinstance(one, dict) else None
        if name is not None and name not in FRONT_ENDS:
            raise ValueError(f"unknown name {name!r}; known: {', '.join(FRONT_ENDS)}")
    return [{"name": one} if isinstance(one, str) else one for one in listed]


def build_front_end(features: Sequence[Features], shape: Sequence[int]) -> nn.Module:
    """The front ends for rows of `shape`, each row of features scaled to one L2 norm."""
    parts = []
    for each in features:
        try:
            part = FRONT_ENDS[each.name](tuple(shape), **(each.model_extra or {}))
        except TypeError as error:
            raise InputError(f"recipe: features {each.name} cannot take these arguments: {error}") from None
        parts.append(nn.Sequential(Deskew(), part) if each.deskew else part)
    return Beside(parts, [each.share for each in features]).eval()


def with_features(split: Split, front_end: nn.Module) -> Split:
    """The split with every row's features, computed row by row, as its inputs."""
    return replace(split.through(partial(precompute, front_end)), seen=split.row_shape)


def seen_as(features: Sequence[Features], shape: Sequence[int]) -> Callable[[Tensor], Tensor] | None:
    """A function from rows (n, ...), flat or of `shape`, to their features (n, width), block by block; None without
    features."""
    if not features:
        return None
    computed = Precomputed(build_front_end(features, shape))
    return lambda rows: computed(rows.reshape(-1, *shape))
