"""torch.func.vmap without its warnings about speed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, backends
from torch._library import custom_ops
from torch._ops import OpOverload, OpOverloadPacket
from torch.autograd import Function
from torch.func import vmap
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from discreet.clipping.capture.left_on import Surroundings
from discreet.core.imports.origin import is_from


def own_rule() -> str | None:
    """The name of a `torch.autograd.Function` or custom operator whose vmap rule is not torch's, if this process has
    one; whether the model calls it is not known."""
    todo = Function.__subclasses__()
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.vmap is not Function.vmap and not is_from(kind, "torch"):
            return kind.__qualname__
    operators = (one for one in custom_ops.OPDEFS.values() if getattr(one, "_vmap_fn", None) is not None)
    return next((str(one) for one in operators if not is_from(one._init_fn, "torch")), None)


def vectorised_call(function: Callable[..., Any], in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Call `function` for all examples at once; random numbers differ between examples. Errors are those of vmap.

    Memory from `torch.empty`, `zeros`, `ones` or `full` is one for all examples, which is what Python code can read. A
    function that draws numbers into it runs again, with such memory for each example, unless it wrote to what it was
    given, or would not do so for each example alone.

    `RuntimeError` if a vmap rule exists that is not torch's: nobody has proved that it keeps examples apart. And if the
    function does what shows it all examples (see `_OneAlone`).
    """
    if (name := own_rule()) is not None:
        raise RuntimeError(f"{name} has a vmap rule of its own, which may not keep examples apart")

    def one(*given: Any) -> Any:
        of_example = [value for value, axis in zip(given, in_dims, strict=True) if axis is not None]
        with _OwnMemory(next(leaf for leaf in tree_leaves(of_example) if isinstance(leaf, Tensor))):
            return function(*given)

    def writes() -> list[int]:  # inference tensors cannot be written to here, and count no writes
        tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
        return [leaf._version for leaf in tensors if not leaf.is_inference()]

    before = writes()

    def needs_own(examples: tuple[Any, ...]) -> bool:
        try:
            vmap(function, in_dims=in_dims, randomness="different")(*examples)
        except RuntimeError as error:
            if _WITHOUT_OWN in str(error):
                return True
            raise
        return False

    with warnings.catch_warnings(), _no_fast_path(), _OneAlone():
        warnings.filterwarnings("ignore", "There is a performance drop")
        around = Surroundings()
        try:
            found = vmap(function, in_dims=in_dims, randomness="different")(*args)
            around.check()
            return found
        except RuntimeError as error:
            if _WITHOUT_OWN not in str(error) or writes() != before:
                raise
            # One example must not decide for the others, so each has to fail so by itself.
            singles = [_single(i, in_dims, args) for i in range(_examples(in_dims, args))]
            if len(singles) > 1 and not (all(map(needs_own, singles)) and writes() == before):
                raise
        found = vmap(one, in_dims=in_dims, randomness="different")(*args)
        around.check()
        return found


_WITHOUT_OWN = "inplace randomness on an unbatched tensor"
"""What torch says where a function draws into memory that all examples have in common."""


def _examples(in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> int:
    given = [value for value, axis in zip(args, in_dims, strict=True) if axis is not None]
    return len(next(leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)))


def _single(number: int, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of one example, along axis 0."""
    alone = [
        value if axis is None else tree_map_only(Tensor, lambda leaf: leaf[number : number + 1].clone(), value)
        for value, axis in zip(args, in_dims, strict=True)
    ]
    return tuple(alone)


_MADE = (torch.empty, torch.zeros, torch.ones, torch.full)
"""Functions that make a tensor of which no entry differs from another."""


_ALL_EXAMPLES = "under vmap, torch shows all examples to the code of each one in"
"""The beginning of what the errors of `_OneAlone` say."""


class _OneAlone(TorchFunctionMode):
    """A mode that raises `RuntimeError` at what shows all examples to code that torch runs for each of them: the text
    of a tensor, modes and hooks that are given tensors as they lie in memory, and code that would run outside of this
    mode: hooks on operations, and what functions of autograd and kernels of operators are written in."""

    def __init__(self) -> None:
        super().__init__()
        self._modes, self._hooks = _modes(), _hooks()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("__repr__", "__format__"):
            raise RuntimeError(f"{_ALL_EXAMPLES} the text of a tensor (print, str, logging)")
        if (what := _outside(func, args)) is not None:
            raise RuntimeError(f"{_ALL_EXAMPLES} {what}")
        if _modes() != self._modes:
            raise RuntimeError(f"{_ALL_EXAMPLES} a mode of its own (TorchDispatchMode)")
        if _hooks() != self._hooks:
            raise RuntimeError(f"{_ALL_EXAMPLES} hooks for saved tensors (saved_tensors_hooks, checkpoint)")
        named = {name: self._inside(one) for name, one in (kwargs or {}).items()}
        return func(*map(self._inside, args), **named)

    def _inside(self, given: Any) -> Any:
        """An argument for torch. A function is wrapped so that it runs in this mode, which is off while torch runs."""
        if not callable(given) or isinstance(given, type | Tensor):
            return given

        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return given(*args, **kwargs)

        return call


_OPERATION = cast(Any, Tensor.grad_fn).__get__
"""The getter of `Tensor.grad_fn`, as a mode is given it."""


def _outside(func: Any, args: Sequence[Any]) -> str | None:
    """Names what in a call makes torch run Python code while no mode is on, as a backward pass; None for nothing."""
    if func == _OPERATION:
        return "hooks on operations (grad_fn)"
    if args and isinstance(args[0], type) and issubclass(args[0], Function) and not is_from(args[0], "torch"):
        return f"the backward pass of {args[0].__qualname__}"
    if isinstance(func, OpOverload | OpOverloadPacket):
        space, name = str(func).split(".")[:2]
        kernels = (key for key in torch.library._impls if key.startswith((f"{space}/{name}/", f"{space}/{name}.")))
        if f"{space}::{name}" not in custom_ops.OPDEFS and any("Composite" in key or "Auto" in key for key in kernels):
            return f"the kernel of {space}::{name}"
    return None


def _modes() -> int:
    """The number of `TorchDispatchMode`s that are on."""
    return torch._C._len_torch_dispatch_stack()


def _hooks() -> Any:
    """The hooks that are given the tensors that derivatives save."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


class _OwnMemory(TorchFunctionMode):
    """A mode in which tensors that are made empty, or of one number, are each example's own. The empty ones are of
    zeros, so that nothing is read that nobody wrote. Torchvision drops branches by drawing into such memory."""

    def __init__(self, example: Tensor) -> None:
        super().__init__()
        self._example = example

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func not in _MADE or made.layout is not torch.strided or "out" in (kwargs or {}):
            return made
        own = self._example.new_zeros(made.shape, dtype=made.dtype, device=made.device)
        return own if func is torch.empty else own.copy_(made)


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
