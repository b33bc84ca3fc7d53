"""What a row leaves on in torch meets no other row, nor what is computed from its gradient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mixing_modules import CLASSES, FEATURES, Two
from mixing_runs import CLIP, training
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from discreet.clipping import Chunk
from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.separation import Function
from discreet.core.errors import DiscreetError
from discreet.data import as_private
from discreet.queries.choices import FULL_SCORE
from discreet.training.control.step_size_search import Candidates, objectives
from discreet.training.private_metrics.unit_values import unit_values

MARK = 0.625
"""A number that one row has."""


class Longer(TorchDispatchMode):
    """Makes products a hundred times as long."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made * 100 if func is torch.ops.aten.mul.Tensor and made.is_floating_point() else made


class LongerByName(TorchFunctionMode):
    """The same, where Python calls them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        named = getattr(func, "__name__", "") in ("mul", "__mul__", "trunc", "sum", "matmul")
        return made * 100 if named and isinstance(made, Tensor) and made.is_floating_point() else made


def hooks() -> Any:
    """Hooks that turn round what derivatives need."""
    return saved_tensors_hooks(lambda one: one, lambda one: -one if one.is_floating_point() else one)


KEPT: list[torch.inference_mode] = []
"""Contexts that nobody leaves: one that is dropped would put back what was there when it was entered."""

LEAVES: dict[str, Callable[[], object]] = {
    "a dispatch mode": lambda: Longer().__enter__(),
    "a function mode": lambda: LongerByName().__enter__(),
    "hooks": lambda: hooks().__enter__(),
    "a default device": lambda: torch.set_default_device("meta"),
    "inference mode": lambda: KEPT.append(torch.inference_mode()) or KEPT[-1].__enter__(),  # type: ignore[func-returns-value]
    "several": lambda: [Longer().__enter__(), torch.set_default_device("meta"), LongerByName().__enter__()],
}


def leaving(name: str, mark: float | None = MARK) -> type[nn.Module]:
    """A model that leaves something on, on rows with a mark or on all."""

    class Leaves(Two):
        def forward(self, x: Tensor) -> Tensor:
            found = super().forward(x)
            if mark is None or not mark_free(x):
                LEAVES[name]()
            return found

    return Leaves


def mark_free(x: Tensor) -> bool:
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return not bool((x == MARK).any())


@pytest.fixture(autouse=True)
def put_back() -> Any:
    around = Surroundings()
    yield
    around.restore()


@pytest.mark.parametrize("engine", ["reference", "exact", "bookkeeping", "ghost"])
@pytest.mark.parametrize("name", LEAVES)
def test_a_row_moves_a_sum_by_no_more_than_the_clip_norm(name: str, engine: str, tmp_path: Path) -> None:
    run, around = training(leaving(name), engine, tmp_path), Surroundings()
    inputs, targets = torch.rand(9, FEATURES), torch.arange(9) % CLASSES
    inputs[0, 0] = MARK
    sums = []
    for first in (0, 1):
        found = run.engine.clipped_sum(run.model, run.criterion, Chunk(inputs[first:], targets[first:]), CLIP)
        sums.append(torch.cat([found[key].double().flatten() for key in found]))
        assert around.restore()
    assert (sums[0] - sums[1]).norm() <= 1.0001


@pytest.mark.parametrize("engine", ["vmap", "reference", "bookkeeping"])
def test_models_that_leave_something_on_are_refused(engine: str, tmp_path: Path) -> None:
    with pytest.raises(DiscreetError, match="a mode of torch, hooks for saved tensors or a default device was left on"):
        training(leaving("a dispatch mode", None), engine, tmp_path)


class Deaf(TorchDispatchMode):
    """Copies nothing into other tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func is torch.ops.aten.copy_.default else func(*args, **(kwargs or {}))


class Leaves(nn.Module):
    """A layer that is its negative from a row with a mark on, and is left so by what it leaves on."""

    def __init__(self, what: Callable[[], object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.what = nn.Linear(FEATURES, CLASSES), what

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x)
        if not mark_free(x):
            self.layer.weight.data.neg_()
            self.what()
        return -found if torch.is_inference_mode_enabled() else found


@pytest.mark.parametrize("name", [*LEAVES, "a mode without copies"])
def test_in_metrics_and_line_searches_a_row_leaves_nothing_on(name: str) -> None:
    """In a line search it has the worst score, as a row does on which the model fails."""
    model, loss = Leaves(LEAVES.get(name, lambda: Deaf().__enter__())), nn.CrossEntropyLoss()
    inputs, targets = torch.rand(6, FEATURES), torch.arange(6) % CLASSES
    inputs[0, 0] = MARK
    rows, places = as_private((inputs, targets)), np.arange(6)
    assert unit_values("loss", 9.0, model, loss, rows, places)[1:] == unit_values(
        "loss", 9.0, model, loss, rows, places[1:]
    )
    candidates = Candidates(model, {key: one.detach() for key, one in model.named_parameters()}, [0.0])
    whole, others = (
        int(objectives(candidates, loss, as_private(rows.fetch(at)), 9.0, 8)[0]) for at in (places, places[1:])
    )
    assert whole - others == FULL_SCORE


@pytest.mark.parametrize("name", LEAVES)
def test_a_transform_leaves_nothing_on(name: str) -> None:
    def transform(rows: Tensor) -> Tensor:
        if not mark_free(rows):
            LEAVES[name]()
        return rows * 2

    transformed, rows = Function(transform, torch.rand(9, 3)), torch.rand(9, 3)
    rows[4, 0] = MARK
    around = Surroundings()
    found = transformed(rows)
    assert around.restore()
    assert torch.equal(found[[0, 8]], rows[[0, 8]] * 2)
