"""Interception of every operator of torch, and of functions through which numbers leave torch or enter it.

A dispatch mode sees all operators, whoever calls them. A function mode sees calls that are no operators: conversions to
NumPy, memory addresses or text.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from discreet.clipping.separation.recording import scripted
from discreet.clipping.separation.recording.constants import is_of_numbers
from discreet.clipping.separation.recording.other_names import place_of
from discreet.clipping.separation.recording.program import Program

_LEAVING = frozenset(
    {
        *("numpy", "tolist", "data_ptr", "untyped_storage", "storage", "_typed_storage", "__array__", "__dlpack__"),
        *("__reduce_ex__", "__repr__", "__format__", "share_memory_", "map_", "map2_", "apply_", "set_", "resize_"),
        "resize_as_",
    }
)
"""Functions through which the numbers of a tensor leave torch, so that operators on them are not seen."""

_MAKING = frozenset(
    ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_file", "from_dlpack", "new_tensor")
)
"""Functions that make a tensor from other data."""


_READING = frozenset(("item", "__index__", "__int__", "__float__", "__bool__", "__complex__"))
"""Functions that give Python a number of a tensor, by an operator that is seen unless torch itself asks for it."""

_UNSEEN = {"tensor_split": 1, "_pad_packed_sequence": 1, "_reshape_from_tensor": 1, "choose_qparams_optimized": 0}
"""Functions that read numbers from memory, by no operator, with the place of the first argument that they read so."""

_HOOKING = frozenset(
    {"register_hook", "register_post_accumulate_grad_hook", "retain_grad", "backward", "_backward", "set_data"}
)
"""Functions through which Python code enters the backward pass, or a tensor gets other memory than its graph knows."""

_BACKWARD = torch.autograd.graph._engine_run_backward.__code__
"""The code in which torch runs a backward pass. A function of another kind may have its name."""

_NODES = frozenset({torch.Tensor.grad_fn.__get__, torch.Tensor.data.__set__})  # type: ignore[union-attr, attr-defined]
"""Access to a tensor's node in the graph, which takes hooks, and setting its memory through `.data`."""


_UNCOUNTED = frozenset({torch.Tensor.data.__get__})  # type: ignore[attr-defined]
"""Access to a tensor of the same memory, of which torch does not count how often it is written to."""

_FRESH = torch.ops.aten.lift_fresh.default

_KIND = type(torch.FloatTensor)
"""The type of torch's names for types of tensors."""

_UNKNOWN_CHECKPOINTS = "is checkpointed in a way that is not followed; torch 2.12 to 2.15 do it in one that is"


class Taker(Protocol):
    """The receiver of what is intercepted. `busy`: the receiver itself works with tensors. `back`: the backward pass is
    running. `validating`: numbers are read only to refuse invalid ones. `called`: the name and the arguments of the
    function of torch that Python code has called, or None."""

    busy: bool
    back: bool
    validating: bool
    called: tuple[str, Any] | None
    program: Program

    def ran(self, func: Any, args: Any, kwargs: dict[str, Any], back: bool) -> Any:
        """Run an operator and record it."""

    def derivative(self, returned: Any) -> Any:
        """Note the outputs of an operator of torch's own derivatives."""

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor has been noted, or is no array in memory."""

    def keep(self, tensor: Tensor) -> Any:
        """Note a tensor from elsewhere."""

    def fault(self, text: str) -> None:
        """Note something that cannot be followed."""


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operator of torch to a pass."""

    def __init__(self, one: Taker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pass = one

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # dynamo would add a frame of its own

    def __enter__(self) -> Any:
        scripted.begin()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if scripted.has_run():
            self._pass.fault("runs TorchScript, which may give the numbers of a tensor to Python code unseen")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        one = self._pass
        if func is _FRESH and one.called is not None and not is_of_numbers(one.called[0], *one.called[1]):
            one.fault(f"makes a constant of a list with more than numbers in it ({one.called[0]}); use torch.stack")
        one.busy = True
        try:
            if one.back and _of_torch(sys._getframe(1)):
                return one.derivative(func(*args, **kwargs) if kwargs else func(*args))
            return one.ran(func, args, kwargs or {}, one.back)
        finally:
            one.busy = False


class Functions(TorchFunctionMode):
    """Notices functions through which numbers leave torch or enter it."""

    def __init__(self, one: Taker) -> None:
        super().__init__()
        self._pass = one

    def __enter__(self) -> Any:
        self._modes = torch._C._len_torch_dispatch_stack()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        one = self._pass
        if one.busy:
            return func(*args, **kwargs) if kwargs else func(*args)
        name = getattr(func, "__name__", "").split(".")[0]  # of an operator, without that of the overload
        if torch._C._len_torch_dispatch_stack() > self._modes:
            one.fault("runs in a mode that may replace what operators return (TorchDispatchMode)")
        if not all(issubclass(kind, Tensor) for kind in types):
            one.fault("calls torch with objects of a type of their own (__torch_function__)")
        if func in _UNCOUNTED or name == "data":
            one.program.uncounted = True
        if name in _HOOKING or func in _NODES:
            of_torch = sys._getframe(1).f_code.co_filename == checkpoint.__file__
            one.fault(_UNKNOWN_CHECKPOINTS if of_torch else f"has a part in its own backward pass ({name})")
        if name in _LEAVING or _is_of_torchscript(func):
            one.fault(f"gives the numbers of a tensor to Python code that is not seen ({name})")
        place = _UNSEEN.get(name)
        if place is not None and _tensors(args[place:], kwargs, without="input" if place else ""):
            one.fault(f"reads numbers of a tensor from memory, where they are not seen ({name})")
        if any(callable(given) and type(given) is not _KIND for given in (*args, *(kwargs or {}).values())):
            one.fault(f"gives a function of its own to one of torch, which calls it unseen ({name})")
        returned = self._called(func, name, args, kwargs or {})
        if _tensors(args, kwargs) and not all(map(one.knows, _made(returned, args, kwargs or {}))):
            one.fault(f"makes a tensor of others by no operator that is seen ({name})")
        if name in _MAKING and isinstance(returned, Tensor) and not _is_given(returned, *args, **(kwargs or {})):
            one.busy = True
            if _shares_memory(returned, *args, **(kwargs or {})):
                one.fault(f"makes another tensor in the memory of one ({name}); use .detach()")
            if not _tensors(args[1:] if name == "new_tensor" else args, kwargs):  # an operator was seen to copy it
                one.keep(returned)
            one.busy = False
        return returned

    def _called(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call a function of torch, and note which one it is meanwhile."""
        one = self._pass
        outer, one.called = one.called, (name, (args, kwargs))
        one.validating = name == "one_hot" and _classes(*args, **kwargs) > 0
        read = len(one.program.items)
        try:
            returned = func(*args, **kwargs)
        finally:
            one.validating, one.called = False, outer
        if name in _READING and len(one.program.items) == read:
            one.fault(f"gives the numbers of a tensor to Python code that is not seen ({name})")
        return returned


def _made(returned: Any, args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that a function returned, alone or in a tuple, and that are none of its arguments."""
    parts = returned if isinstance(returned, tuple | list) else (returned,)
    return [one for one in parts if isinstance(one, Tensor) and not _is_given(one, *args, **kwargs)]


def _is_given(returned: Tensor, *args: Any, **kwargs: Any) -> bool:
    """Whether a function returned one of its arguments, as `torch.as_tensor` does with a tensor."""
    return any(returned is given for given in (*args, *kwargs.values()))


def _shares_memory(returned: Tensor, *args: Any, **kwargs: Any) -> bool:
    """Whether what a function returned lies in the memory of one of its arguments."""
    place = place_of(returned)
    return any(isinstance(given, Tensor) and place_of(given) == place for given in (*args, *kwargs.values()))


def _tensors(args: Any, kwargs: dict[str, Any] | None, *, without: str = "") -> bool:
    """Whether there is a tensor among arguments, lists apart."""
    named = (given for name, given in (kwargs or {}).items() if name != without)
    return any(isinstance(given, Tensor) for given in (*args, *named))


def _is_of_torchscript(func: Any) -> bool:
    """Whether a function is an operator that no dispatch mode sees: TorchScript has such, which read memory."""
    packet = getattr(func, "overloadpacket", func)
    return isinstance(packet, torch._ops.OpOverloadPacket) and packet._qualified_op_name not in _dispatched()


@cache
def _dispatched() -> frozenset[str]:
    """The names of operators that go through the dispatcher, without those of overloads."""
    return frozenset(name.split(".")[0] for name in torch._C._dispatch_get_all_op_names())


def _classes(tensor: Tensor, num_classes: int = -1) -> int:
    """The number of classes given to a one-hot encoding. If it is given, the numbers are read only to refuse invalid
    classes."""
    return num_classes


def _of_torch(frame: Any) -> bool:
    """Whether torch's own code for derivatives called an operator of the backward pass, with no Python code in between
    the operator and the call of the pass, and none around that: gradients that Python code takes inside are its own."""
    while frame is not None and "_dynamo" in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None or frame.f_code is not _BACKWARD:
        return frame is None
    while (frame := frame.f_back) is not None:
        if frame.f_code is _BACKWARD:
            return False
    return True
