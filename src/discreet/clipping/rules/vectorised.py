"""For modules without a rule: the module runs again, alone, for every example through torch.func.vmap."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.rules.base import Formed, refuse
from discreet.clipping.rules.numbers import blank, wide
from discreet.clipping.vectorise import vectorised_call
from discreet.core.errors import kind_of

_copy: ContextVar[Callable[[nn.Module], nn.Module] | None] = ContextVar("copy", default=None)


@contextmanager
def run_as(copy: Callable[[nn.Module], nn.Module]) -> Iterator[None]:
    """Inside, `copy(module)` runs in the place of a module: a new one for each example, or for all that run at once.
    What a module has kept of a batch would reach every example of it."""
    token = _copy.set(copy)
    try:
        yield
    finally:
        _copy.reset(token)


class Vectorised(Formed):
    """Per-example gradients of one module, from its inputs and the gradients of its outputs.

    The second run must compute what the first did, so modules that draw random numbers are refused earlier. Every
    tensor among the inputs has the examples along axis 0.
    """

    names = ()

    tied: ClassVar[bool] = True
    """Whether a parameter that modules inside hold as well is replaced there too."""

    _one_by_one: bool | None = None
    """Whether the module runs on one example at a time instead of all at once; None until it has run."""

    def __init__(
        self,
        module: nn.Module,
        trained: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        gradients: tuple[Tensor | None, ...],
    ) -> None:
        self.module, self.trained, self.formed = module, trained, trained
        self._leaves, self._shape = tree_flatten(self.arrange(args, dict(kwargs)))
        for leaf in self._leaves:
            if not isinstance(leaf, Tensor) and not _is_plain(leaf):
                raise refuse(
                    module,
                    f"has no rule, and is given {kind_of(leaf)}, which may hold other rows when it is run again for "
                    "each example; give it tensors and numbers, or the engine 'vmap' may run it",
                )
        self._given = {i: self._as_trained(leaf) for i, leaf in enumerate(self._leaves) if isinstance(leaf, Tensor)}
        self._outputs = {
            i: self._as_trained(self.arrange_gradient(i, gradient))
            for i, gradient in enumerate(gradients)
            if gradient is not None
        }
        self._count = len(next(iter(self._outputs.values())))
        for value in [*self._given.values(), *self._outputs.values()]:
            if value.dim() == 0 or len(value) != self._count:
                raise refuse(
                    module,
                    f"has no rule, and takes or returns a tensor of shape {tuple(value.shape)} in a batch of "
                    f"{self._count}; let it hold what is not of one example each (as a buffer), or the engine 'vmap' "
                    "may run it",
                )

    def _as_trained(self, tensor: Tensor) -> Tensor:
        """The tensor in the type of the parameters if autocast narrowed it: the module runs again without autocast."""
        kind = self.module.get_parameter(self.trained[0]).dtype
        narrower = tensor.is_floating_point() and torch.promote_types(tensor.dtype, kind) == kind
        return tensor.detach().to(kind) if narrower else tensor.detach()

    def arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs with the examples along axis 0 of every tensor."""
        return args, kwargs

    def arrange_gradient(self, number: int, gradient: Tensor) -> Tensor:
        """The gradient of the tensor returned at place `number`, with the examples along axis 0."""
        return gradient

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the module, `function`, for one example. The tensors given (as arranged) and returned have no axis of
        examples."""
        args, kwargs = tree_map_only(Tensor, lambda tensor: tensor.unsqueeze(0), (args, kwargs))
        return tree_map_only(Tensor, lambda tensor: tensor.squeeze(0), function(*args, **kwargs))

    @property
    def examples(self) -> int:
        return self._count

    def bytes_per_example(self) -> int:
        kept = sum(tensor[0].numel() for tensor in [*self._given.values(), *self._outputs.values()])
        return 8 * (4 * kept + 2 * self._numbers())

    def forget_captured(self) -> None:
        self._given, self._outputs, self._leaves = {}, {}, []

    def drop_captured(self, unusable: Tensor) -> None:
        self._given = {key: blank(value, unusable) for key, value in self._given.items()}
        self._outputs = {key: blank(value, unusable) for key, value in self._outputs.items()}

    def gradients(self, start: int, stop: int) -> dict[str, Tensor]:
        parameters = {name: self.module.get_parameter(name).detach() for name in self.trained}
        rows: dict[str, Tensor] = {}
        if not self._one_by_one:
            try:
                rows = vectorised_call(self._one, (None, 0, 0), parameters, *self._copied(start, stop))
            except RuntimeError:  # not every function can be vectorised, but all can run one by one
                if self._one_by_one is False:
                    raise  # of lack of memory, say: other rounding than was measured may take another branch
            self._one_by_one = not rows
        if self._one_by_one:
            captured = self._copied(start, stop)
            singles = [
                self._alone(*({key: value[i] for key, value in group.items()} for group in captured))
                for i in range(stop - start)
            ]
            rows = {name: torch.stack([single[name] for single in singles]) for name in self.trained}
        return {name: wide(row) for name, row in rows.items()}

    def _copied(self, start: int, stop: int) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Copies of what was captured of examples start .. stop - 1: the module may work in place, and must find the
        same values again when the sum is formed."""
        given, outputs = (
            {key: value[start:stop].clone() for key, value in group.items()} for group in (self._given, self._outputs)
        )
        return given, outputs

    def _one(
        self, parameters: dict[str, Tensor], given: dict[int, Tensor], outputs: dict[int, Tensor]
    ) -> dict[str, Tensor]:
        """The gradients of one example, inside vmap."""
        module = self._new_module()
        pull_back = vjp(lambda trained: self._returned(module, trained, given, outputs), parameters)[1]
        gradients: dict[str, Tensor] = pull_back(outputs)[0]
        return gradients

    def _alone(self, given: dict[int, Tensor], outputs: dict[int, Tensor]) -> dict[str, Tensor]:
        """The gradients of one example, by a backward pass of its own."""
        parameters = {name: self.module.get_parameter(name).detach().requires_grad_() for name in self.trained}
        around = Surroundings()
        with torch.enable_grad():
            returned = self._returned(self._new_module(), parameters, given, outputs)
        rows = torch.autograd.grad(
            list(returned.values()), list(parameters.values()), list(outputs.values()), allow_unused=True
        )
        around.check()
        return {
            name: torch.zeros_like(parameter) if row is None else row
            for (name, parameter), row in zip(parameters.items(), rows, strict=True)
        }

    def _new_module(self) -> nn.Module:
        copy = _copy.get()
        return self.module if copy is None else copy(self.module)

    def _returned(
        self,
        module: nn.Module,
        trained: Mapping[str, Tensor],
        given: dict[int, Tensor],
        outputs: dict[int, Tensor],
    ) -> dict[int, Tensor]:
        """The outputs of the module for one example that have a gradient, by their place."""
        leaves = [given.get(i, leaf) for i, leaf in enumerate(self._leaves)]
        args, kwargs = tree_unflatten(leaves, self._shape)
        parts = tree_leaves(self.call(partial(self._run, module, trained), args, kwargs))
        tensors = [part for part in parts if isinstance(part, Tensor)]
        return {i: tensors[i] for i in outputs}

    def _run(self, module: nn.Module, trained: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        tensors = self.tensors(trained)
        return functional_call(module, tensors, args, kwargs, tie_weights=self.tied)

    def tensors(self, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The parameters and buffers that the module runs with, by name."""
        fixed = {name: one.detach() for name, one in named_tensors(self.module).together.items() if name not in trained}
        return {**fixed, **trained}


_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, type(...), types.BuiltinFunctionType),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""Types whose objects hold nothing that could be of a row."""


def _is_plain(leaf: object) -> bool:
    if type(leaf) is types.FunctionType:
        return not (leaf.__closure__ or leaf.__defaults__ or leaf.__kwdefaults__ or vars(leaf))
    if type(leaf) is types.BuiltinFunctionType:
        return leaf.__self__ is None or isinstance(leaf.__self__, types.ModuleType | type)
    parts = (leaf.start, leaf.stop, leaf.step) if isinstance(leaf, slice | range) else (leaf,)
    return all(type(one) in _PLAIN for one in parts)


class HeldDirectly(Vectorised):
    """For the parameters that a module holds itself. Modules inside that hold one of them as well are owners of their
    own, so there they are constants: their share of the gradient is measured once."""

    tied = False

    def tensors(self, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
        own = {id(self.module.get_parameter(name)): one for name, one in trained.items()}
        found = {name: one.detach() for name, one in self.module.named_parameters(remove_duplicate=False)}
        found |= {name: one.detach() for name, one in self.module.named_buffers(remove_duplicate=False)}
        held = {name: id(one) for name, one in self.module._parameters.items() if one is not None}
        return found | {name: own[key] for name, key in held.items() if key in own}
