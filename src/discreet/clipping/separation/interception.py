"""Every operator of torch, as it runs, and functions by which numbers leave torch or come to it.

A dispatch mode sees operators, whoever calls them. A function mode sees what is no operator: NumPy, addresses of
memory, text.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_LEAVING = frozenset(
    {
        *("numpy", "tolist", "data_ptr", "untyped_storage", "storage", "_typed_storage", "__array__", "__dlpack__"),
        *("__reduce_ex__", "__repr__", "__format__", "share_memory_", "map_", "map2_", "apply_", "set_", "resize_"),
        "resize_as_",
    }
)
"""Functions by which the numbers of a tensor get to where operators are not seen."""

_MAKING = frozenset(
    ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_file", "from_dlpack", "new_tensor")
)
"""Functions that make a tensor of what is not one."""


_HOOKING = frozenset({"register_hook", "register_post_accumulate_grad_hook", "retain_grad", "backward"})
"""Functions by which Python code gets into the backward pass."""

_NODES = frozenset({torch.Tensor.grad_fn.__get__, torch.Tensor.data.__set__})  # type: ignore[union-attr, attr-defined]
"""A tensor's place in the backward pass, which takes hooks; and its memory, put in the place of another's."""


class Taker(Protocol):
    """Who is told. `busy`: it looks at tensors itself. `back`: the backward pass is running. `validating`: numbers are
    read to refuse some, and for nothing else."""

    busy: bool
    back: bool
    validating: bool

    def ran(self, func: Any, args: Any, kwargs: dict[str, Any], back: bool) -> Any:
        """Run an operator, and write it down."""

    def derivative(self, returned: Any) -> Any:
        """Note what an operator of torch's own derivatives returned."""

    def keep(self, tensor: Tensor) -> Any:
        """Note a tensor from elsewhere."""

    def fault(self, text: str) -> None:
        """Note what cannot be followed."""


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operator of torch to a pass."""

    def __init__(self, one: Taker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pass = one

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # which would put a frame of its own between

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        one = self._pass
        one.busy = True
        try:
            if one.back and _of_torch(sys._getframe(1)):
                return one.derivative(func(*args, **kwargs) if kwargs else func(*args))
            return one.ran(func, args, kwargs or {}, one.back)
        finally:
            one.busy = False


class Functions(TorchFunctionMode):
    """Notices functions by which numbers leave torch, or come to it."""

    def __init__(self, one: Taker) -> None:
        super().__init__()
        self._pass = one

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        one = self._pass
        if one.busy:
            return func(*args, **kwargs) if kwargs else func(*args)
        name = getattr(func, "__name__", "")
        if name in _HOOKING or func in _NODES:
            one.fault(f"has a part in its own backward pass ({name})")
        if name in _LEAVING:
            one.fault(f"gives the numbers of a tensor to Python code that is not seen ({name})")
        one.validating = name == "one_hot" and _classes(*args, **(kwargs or {})) > 0
        try:
            returned = func(*args, **kwargs) if kwargs else func(*args)
        finally:
            one.validating = False
        if name in _MAKING and isinstance(returned, Tensor):
            one.busy = True
            one.keep(returned)
            one.busy = False
        return returned


def _classes(tensor: Tensor, num_classes: int = -1) -> int:
    """The classes of a one-hot encoding. Where they are given, its numbers are read to refuse those that are not among
    them, and for nothing else."""
    return num_classes


def _of_torch(frame: Any) -> bool:
    """Whether an operator of the backward pass was called by torch's own code for derivatives, with no Python code
    between it and the call of the pass."""
    while frame is not None and "_dynamo" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is None or frame.f_code.co_name == "_engine_run_backward"
