"""Whether a model computes with the whole numbers of its rows, which rounds, or only uses them as indices.

Tokens and categories go into a table, a one-hot encoding or a comparison: a larger number is an error or another entry,
and rounds no more than a small one. Time stamps, counts and levels of grey become real numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from discreet.clipping import modes_kept, training_mode
from discreet.clipping.admission.example_axes import is_whole

_PLACES = frozenset({"index", "indices", "offsets"})
"""Arguments of operators that are indices."""


def computes_with(model: nn.Module, inputs: Tensor) -> bool:
    """Whether a model turns whole numbers into real ones, in training mode. `inputs`: random rows.

    True also if no operator is seen to take the rows.
    """
    look = _Followed(inputs)
    with torch.no_grad(), torch.random.fork_rng(), modes_kept(model), look:
        training_mode(model)
        model(inputs)
    return look.computed or not look.taken


class _Followed(TorchDispatchMode):
    """Follows whole numbers through all tensors that are computed from them, except truth values."""

    def __init__(self, inputs: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.computed = self.taken = False
        self._followed = {_memory(inputs)}
        self._held: list[Any] = [inputs]  # or else their memory would be used again

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = func(*args, **(kwargs or {}))
        names = [one.name for one in func._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        self.taken |= any(self._is_followed(value) for value in given.values())
        if any(self._is_followed(value) for name, value in given.items() if name not in _PLACES):
            for tensor in _tensors(returned):
                if not is_whole(tensor):
                    self.computed = True
                elif tensor.dtype != torch.bool:
                    self._followed.add(_memory(tensor))
        self._held.append(returned)
        return returned

    def _is_followed(self, value: Any) -> bool:
        return any(one.dtype != torch.bool and _memory(one) in self._followed for one in _tensors(value))


def _tensors(value: Any) -> list[Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, Tensor)]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
