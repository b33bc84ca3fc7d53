"""Traces of the inputs and outputs of every module in a run, with random numbers that do not depend on data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.hooks import RemovableHandle

from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.seeding import seed_torch


@dataclass(slots=True)
class Call:
    """One call of a module: its arguments (`passed`), the tensors among them (`given`), and its output tensors."""

    name: str
    passed: tuple[Any, Any]
    given: list[Tensor]
    returned: list[Tensor]


Trace = list[Call]
"""The calls of one run, in the order in which they ended; the call of the model is last."""


def trace(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Trace:
    """All calls of modules, with random numbers as in `seeded`."""
    calls: Trace = []
    begun: list[tuple[Any, Any]] = []

    def before(_: nn.Module, args: Any, kwargs: Any) -> None:
        if kwargs or not all(isinstance(part, Tensor) for part in args):
            begun.append(tree_map_only(Tensor, lambda part: part.detach().clone(), (args, kwargs)))
        else:  # the usual case; walking a tree takes several times as long
            begun.append((tuple(part.detach().clone() for part in args), {}))

    def after(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: object, returned: object) -> None:
            passed = begun.pop()
            calls.append(Call(name, passed, plain(passed), [part.detach().clone() for part in plain(returned)]))

        return hook

    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after(name)))
    try:
        with seeded(model):
            around = Surroundings()
            model(*args, **(kwargs or {}))
            around.check()
    finally:
        for handle in handles:
            handle.remove()
    return calls


@contextmanager
def seeded(model: nn.Module) -> Iterator[None]:
    """Inside, the generator is seeded again wherever a module begins or ends, so that later random numbers are the same
    even if the number of draws in a module depends on its input."""
    seeds = itertools.count()

    def seed(*_: object) -> None:
        seed_torch(next(seeds))

    handles: list[RemovableHandle] = []
    try:
        for module in model.modules():
            handles += [module.register_forward_pre_hook(seed), module.register_forward_hook(seed)]
        yield
    finally:
        for handle in handles:
            handle.remove()


def plain(values: Any) -> list[Tensor]:
    """The strided tensors among `values`, whose entries have places in memory."""
    leaves = [values] if isinstance(values, Tensor) else tree_leaves(values)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    return [leaf for leaf in tensors if leaf.layout == torch.strided and not leaf.is_nested]


@contextmanager
def steady_slopes(model: nn.Module) -> Iterator[None]:
    """Inside, random slopes are replaced by their mean: how many an RReLU draws depends on the signs of its input."""
    slopes = [(module, module.lower, module.upper) for module in model.modules() if isinstance(module, nn.RReLU)]
    try:
        for module, lower, upper in slopes:
            module.lower = module.upper = (lower + upper) / 2
        yield
    finally:
        for module, lower, upper in slopes:
            module.lower, module.upper = lower, upper
