"""torch.func.vmap without its warnings about speed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import backends
from torch._library import custom_ops
from torch.autograd import Function
from torch.func import vmap


def own_rule() -> str | None:
    """The name of a `torch.autograd.Function` or custom operator whose vmap rule is not torch's, if this process has
    one; whether the model calls it is not known."""
    todo = Function.__subclasses__()
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.vmap is not Function.vmap and not kind.__module__.startswith("torch."):
            return kind.__qualname__
    operators = (one for one in custom_ops.OPDEFS.values() if getattr(one, "_vmap_fn", None) is not None)
    return next((str(one) for one in operators if not one._init_fn.__module__.startswith("torch.")), None)


def vectorised_call(function: Callable[..., Any], in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Call `function` for all examples at once; random numbers differ between examples. Errors are those of vmap.

    `RuntimeError` if a vmap rule exists that is not torch's: nobody has proved that it keeps examples apart.
    """
    if (name := own_rule()) is not None:
        raise RuntimeError(f"{name} has a vmap rule of its own, which may not keep examples apart")
    with warnings.catch_warnings(), _no_fast_path():
        warnings.filterwarnings("ignore", "There is a performance drop")
        return vmap(function, in_dims=in_dims, randomness="different")(*args)


@contextmanager
def _no_fast_path() -> Iterator[None]:
    """A context in which encoders of torch that are in evaluation go the way that they go in training: their other way
    looks at the values of a mask and makes nested tensors, for neither of which vmap has a rule."""
    before = backends.mha.get_fastpath_enabled()
    backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        backends.mha.set_fastpath_enabled(before)
