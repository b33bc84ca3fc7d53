"""torch.func.vmap without its remarks on speed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch.func import vmap


def vectorised_call(function: Callable[..., Any], in_dims: tuple[int | None, ...], *args: Any) -> Any:
    """Call `function` for all examples at once; random numbers differ between examples. Errors are those of vmap."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        return vmap(function, in_dims=in_dims, randomness="different")(*args)
