"""A model whose weights are there while they are needed: gathered when a module runs, forwards or backwards, and let go
of afterwards.

Forwards, the weights of a unit are gathered when one of its modules begins and let go of when it ends. Backwards, they
are gathered when the pass reaches the output of the module, and let go of when it reaches another: torch takes the
operators of a backward pass in the opposite order of their calls, so those of a later module are over by then. Memory
is freed below the tensors that autograd keeps and filled again with the same numbers, as weights change between steps
only. A parameter that is not there is NaN.

FSDP2 (`torch.distributed.fsdp.fully_shard`) does the same with other parameters in the place of a module's, and with
functions of its own in the graph. The proof that rows stay apart follows a model's own parameters and operators
(`clipping.separation`), so weights come and go beneath them here, and the recorder is told where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping.capture.call import tensors_in
from discreet.clipping.capture.owners import Owner, owners_of
from discreet.clipping.separation.recording import recorder
from discreet.core.errors import UnsupportedModel
from discreet.distributed.lockstep import Lockstep
from discreet.distributed.weight_shards import absent


class GatheredLayers:
    """Hooks on a twin of the trained model that gather its weights. Each call of the model is a pass of `lockstep`."""

    def __init__(self, model: nn.Module, lockstep: Lockstep) -> None:
        self._model, self._lockstep = model, lockstep
        held = dict(model.named_parameters())
        self._units = [{name: held[name] for name in unit.names} for unit in lockstep.shards.units]
        self._memory: dict[str, Tensor] = {}
        self._here: set[int] = set()
        self._given: dict[int, list[list[Any]]] = {}  # by unit, for each open call: what made its inputs
        self._back = False
        modules = dict(model.named_modules())
        for number, unit in enumerate(lockstep.shards.units):
            for name in unit.modules:
                self._hook(number, modules[name], kept=unit.kept)
        self._go = {name for unit in lockstep.shards.units if not unit.kept for name in unit.names}
        for owner in owners_of(model):
            owner.module.register_forward_pre_hook(self._whole_input(owner), with_kwargs=True)
        model.register_forward_pre_hook(self._begin, prepend=True)

    def _hook(self, number: int, module: nn.Module, *, kept: bool) -> None:
        given: list[list[Any]] = self._given.setdefault(number, [])

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            with recorder.aside():
                given.append([one.grad_fn for one in tensors_in([args, kwargs])])
                self._need(number)

        def after(_: nn.Module, __: Any, returned: Any) -> None:
            came = given.pop()
            if not self._back:
                with recorder.aside():
                    # What a module returns as it came is gone back through by the one that made it.
                    made = [one for one in tensors_in(returned) if not any(one.grad_fn is other for other in came)]
                    self._needed_again(number, made, kept=kept)

        module.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
        module.register_forward_hook(after)

    def _whole_input(self, owner: Owner) -> Callable[[nn.Module, Any, Any], None]:
        """A hook that refuses an input that is a part of weights which are let go of: clipped sums are formed after
        that, from the inputs of modules."""

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            with recorder.aside():
                given = {_place(one) for one in tensors_in([args, kwargs])}
                if not given.isdisjoint(_place(self._memory[name]) for name in self._go & self._memory.keys()):
                    raise UnsupportedModel(
                        f"{owner.described} is given a part of weights as it is, which are not kept with "
                        'shard="fully"; give it a copy (.clone()), or train with shard="replicate"'
                    )

        return before

    def _begin(self, *_: Any) -> None:
        with recorder.aside():
            self._lockstep.begin(self._end)
            self._back = False
            for calls in self._given.values():
                calls.clear()  # of a pass that failed

    def _end(self) -> None:
        """The pass is over."""
        for number in [*self._here]:
            self._leave(number)

    def _need(self, number: int) -> None:
        if number in self._here:
            return
        for name, values in self._lockstep.gathered(number).items():
            parameter, memory = self._units[number][name], self._memory.get(name)
            if memory is None:
                memory = self._memory[name] = torch.empty_like(values)
            else:
                memory.untyped_storage().resize_(values.nbytes)
            parameter.data = memory.copy_(values)
            recorder.lies(name, parameter)
        self._here.add(number)

    def _needed_again(self, number: int, outputs: list[Tensor], *, kept: bool) -> None:
        """Let go of a unit until the backward pass reaches an output of its module."""

        def reached(_: Any) -> None:
            with recorder.aside():
                self._back = True
                if kept:
                    return  # it is there, and modules inside are not over
                self._need(number)
                units = self._lockstep.shards.units
                for other in [one for one in self._here if one != number and not units[one].kept]:
                    self._leave(other)

        for output in outputs:
            if output.grad_fn is not None:
                output.grad_fn.register_prehook(reached)
        if not kept:
            self._leave(number)

    def _leave(self, number: int) -> None:
        if number not in self._here:
            return
        self._here.discard(number)
        for name, parameter in self._units[number].items():
            absent(parameter)
            self._memory[name].untyped_storage().resize_(0)


def _place(tensor: Tensor) -> int:
    """A number for the memory of a tensor, which stays the same while that is freed and filled again."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else 0
