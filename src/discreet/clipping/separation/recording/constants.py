"""Lists that functions of torch are given, which must hold plain numbers alone.

torch makes a constant of a list without a word of what is in it. A tensor in the list gives its number unseen, and so
does an object that computes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_NUMBERS = (int, float, complex, str, type(None), np.generic, range, torch.dtype, torch.device, torch.layout)

_PLACES = ("__getitem__", "__setitem__")
"""Functions that are given places, among which tensors are used as they are."""


def is_of_numbers(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether nothing is in the lists among the arguments of a function of torch, called `name`, but plain numbers."""
    return all(_is_plain(one, inside=False, places=name in _PLACES) for one in (*args, *kwargs.values()))


def _is_plain(one: Any, *, inside: bool, places: bool) -> bool:
    """`inside`: of a list; `places`: tensors of a tuple, which is not inside another, are used as they are."""
    if isinstance(one, Tensor):
        return not inside
    if isinstance(one, slice) or one is ...:
        return places
    if isinstance(one, np.ndarray):
        return not one.dtype.hasobject
    if type(one) is list or type(one) is tuple:
        inside = inside or not (places and type(one) is tuple)
        return all(_is_plain(part, inside=inside, places=places) for part in one)
    return isinstance(one, _NUMBERS)
