"""The part of a model before its first trained parameter: its front end, computed once for each row instead of in every
step.

A step protects a row because nothing else depends on it. So features may take the place of rows if those of each row
depend on that row alone. Blocks of rows go through a copy of the front end as a proved program that keeps them apart,
and else one by one through fresh copies (`Function`). What stands beside a row must not even change how its features
are rounded: that is tried on random rows, as in `features.precompute`. For an engine that rests on no assumption about
rounding, the features of every row are computed alone.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from discreet.clipping import ENGINES, evaluation_mode, training_mode
from discreet.clipping.separation import Function
from discreet.clipping.separation.copies import copied
from discreet.clipping.separation.memory import same_values
from discreet.core.errors import OTHER_ROWS
from discreet.data import PrivateData
from discreet.data.private.gathering import is_pair
from discreet.features.precompute import in_blocks, rows_together
from discreet.plan import AdaptivePlan, Plan
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.random_rows import random_rows
from discreet.training.public.public_copy import PublicCopy

LARGEST = 2**31
"""The most bytes of features that are kept."""

_FEW, _MANY = 8, 128
"""The fewest and the most rows that go through a front end together. Trying out n rows costs as much as n^2 rows."""

_PUBLIC_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """The first `count` modules of an nn.Sequential; 0 if there is nothing that can be computed once. `at_once`: how
    many private rows it takes together."""

    count: int = 0
    at_once: int = 1

    @property
    def alone(self) -> bool:
        """Whether the features of every private row are computed by themselves."""
        return self.at_once == 1

    def of(self, model: nn.Module) -> nn.Sequential:
        """The front end of a model."""
        return nn.Sequential(*[part for _, part in _parts(model)[: self.count]])

    def behind(self, model: nn.Module) -> nn.Module:
        """The model behind the front end: the same modules, hence parameters, under their names in the model."""
        if self.count == 0:
            return model
        return nn.Sequential(OrderedDict(_parts(model)[self.count :]))

    def of_private(self, copy: PublicCopy, data: PrivateData) -> PrivateData:
        """The data with features instead of inputs. Private rows see copies of the front end of `copy` only."""
        if self.count == 0:
            return data
        inputs, targets = cast("TensorDataset", data.dataset).tensors
        first, device = self.of(copied(copy.model, copy.criterion, own=True)[0]), next(copy.model.parameters()).device
        training_mode(first)
        with torch.no_grad(), torch.random.fork_rng():
            function = Function(first, random_rows(copy.model, data, None).inputs, together=not self.alone)

            def features(rows: Tensor) -> Tensor:
                return function(rows.to(device)).to(rows.device)

            found = features(inputs) if self.alone else in_blocks(features, inputs, self.at_once)
        return replace(data, dataset=TensorDataset(found, targets))

    def of_public(self, model: nn.Module, rows: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor] | None:
        """Rows that are declared public, with features instead of inputs."""
        if self.count == 0 or rows is None:
            return rows
        device, first = next(model.parameters()).device, self.of(model)
        with torch.no_grad(), evaluation_mode(first):
            parts = [first(part.to(device)).to(part.device) for part in torch.split(rows[0], _PUBLIC_AT_ONCE)]
        return torch.cat(parts), rows[1]

    def described(self, model: nn.Module) -> str:
        """The front end in the log line of a run."""
        if self.count == 0:
            return ""
        return f"; features by {' and '.join(type(one).__name__ for one in self.of(model))} computed once"


def front_end(options: EngineOptions, copy: PublicCopy, data: PrivateData, plan: Plan | AdaptivePlan) -> FrontEnd:
    """The front end of a model that can be computed once, for rows that are in memory and have no transform.

    Of the data, only the shape of a row is used: whether features fit is decided by the declared population. Not for a
    plan with a line search, which measures losses of the whole model.
    """
    model = copy.model
    may_have_one = (
        options.features_once
        and plan.line_search is None
        and data.transform is None
        and is_pair(data.dataset)
        and type(model) is nn.Sequential
        and "forward" not in vars(model)
        and not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
    )
    if not may_have_one:
        return FrontEnd()
    alone = options.name in ENGINES and ENGINES[options.name].float_bits is None
    at_once = 1 if alone else min(_MANY, max(_FEW, math.isqrt(int(plan.population)) // 2))
    try:
        with torch.random.fork_rng(), torch.no_grad():
            found = FrontEnd(_length(copy, random_rows(model, data, None).inputs), at_once)
            return found if found.count and _may_be_computed_once(found, copy, data, plan) else FrontEnd()
    except OTHER_ROWS:  # those of the library, too, which are ValueErrors
        return FrontEnd()


def _length(copy: PublicCopy, rows: Tensor) -> int:
    """The number of leading modules that are not trained and always do the same; 0 if these compute nothing."""
    parts = [part for _, part in _parts(copied(copy.model, copy.criterion)[0])]
    count = next((i for i, part in enumerate(parts) if any(one.requires_grad for one in part.parameters())), 0)
    while count and not (_is_fixed(nn.Sequential(*parts[:count]), rows) and _apart(parts[:count], parts[count:])):
        count -= 1
    return 0 if all(type(part) in (nn.Flatten, nn.Unflatten, nn.Identity) for part in parts[:count]) else count


def _parts(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules of an nn.Sequential in the order in which they run, with their names. (`children` leaves out a module
    that was there before.)"""
    return [(name, part) for name, part in model._modules.items() if part is not None]


def _apart(first: list[nn.Module], others: list[nn.Module]) -> bool:
    """Whether two parts of a model have no module in common."""
    one, other = ({id(module) for part in parts for module in part.modules()} for parts in (first, others))
    return not one & other


def _may_be_computed_once(found: FrontEnd, copy: PublicCopy, data: PrivateData, plan: Plan | AdaptivePlan) -> bool:
    """Whether rows go through the front end together as if each were alone, the model makes of rows what both parts
    make of them, and features fit."""
    model, rows = copied(copy.model, copy.criterion)[0], random_rows(copy.model, data, None).inputs
    first = found.of(model)
    if rows_together(first, rows[:1], found.at_once) < found.at_once:
        return False
    with evaluation_mode(model):
        if not same_values(model(rows), found.behind(model)(first(rows))):
            return False
    one, function = first(rows[:1]), Function(first, rows, together=not found.alone)
    fits = one.numel() * one.element_size() * plan.population * plan.rows_per_unit <= LARGEST
    return fits and function.takes_rows and (found.alone or function.is_proved)


def _is_fixed(front_end: nn.Module, rows: Tensor) -> bool:
    """Whether a front end does the same in training and in evaluation, without random numbers."""
    before = torch.get_rng_state()
    with evaluation_mode(front_end):
        evaluated = front_end(rows)
    training_mode(front_end)
    trained = [front_end(rows) for _ in range(2)]
    return torch.equal(before, torch.get_rng_state()) and all(same_values(evaluated, one) for one in trained)
