"""Gradients that are too many to be kept are formed again for the sum, as they were when they were measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from rule_modules import Computed, Matrix, twice
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Units, private_parameters
from discreet.clipping.rules import Vectorised, base, vectorised

ROWS = 64


def matrix() -> nn.Module:
    """A module that no rule knows, with one parameter."""
    made = Matrix()
    made.scale.requires_grad_(False)
    return made


CALLS: dict[str, Callable[[], nn.Module]] = {"once": matrix, "twice": lambda: Computed(matrix(), twice)}


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("units", [None, Units((2,) * (ROWS // 2), at_most=2)], ids=["examples", "units"])
@pytest.mark.parametrize("scaled", [False, True], ids=["flat", "scaled"])
def test_what_is_added_up_was_measured_in_blocks_of_the_same_size(
    scaled: bool, units: Units | None, calls: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module rounds otherwise with another number of examples, and may then take another branch. Here a gradient is
    as many times longer as there are examples in its block."""
    torch.manual_seed(0)
    model = CALLS[calls]()
    formed = Vectorised.gradients

    def by_number(rule: Vectorised, start: int, stop: int) -> dict[str, Tensor]:
        return {name: (stop - start) ** 4 * rows for name, rows in formed(rule, start, stop).items()}

    monkeypatch.setattr(Vectorised, "gradients", by_number)
    monkeypatch.setattr(base, "BUDGET", 2**13)  # a few gradients; those of all examples take more
    scales = {name: torch.ones_like(one, dtype=torch.float64) for name, one in private_parameters(model).items()}
    clip = Clip(1e-3, 2.0**-40, scales=scales if scaled else None)
    x = torch.randn(3, 8).expand(ROWS, 3, 8)  # which all add the same
    sums = ENGINES[engine].clipped_sum(model, lambda y, _: y.sum(), Chunk(x, torch.zeros(ROWS), units), clip)
    length = torch.cat([one.double().flatten() for one in sums.values()]).norm()
    assert float(length) <= clip.norm * (ROWS if units is None else len(units)) * (1 + 1e-5)


@pytest.mark.parametrize(("engine", "failing"), [("bookkeeping", 1), ("bookkeeping", 3), ("ghost", 3)])
def test_examples_run_at_once_for_norms_and_sum_or_one_by_one_for_both(
    engine: str, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call fails in a module that cannot be vectorised; a later one where memory is short."""
    calls: list[int] = []
    real = vectorised.vectorised_call

    def call(*args: Any) -> Any:
        calls.append(len(calls) + 1)
        if calls[-1] == failing:
            raise RuntimeError("not enough memory")
        return real(*args)

    monkeypatch.setattr(vectorised, "vectorised_call", call)
    monkeypatch.setattr(base, "BUDGET", 2**13)
    torch.manual_seed(0)
    model, x, clip = matrix(), torch.randn(ROWS, 3, 8), Clip(1e-3, 2.0**-40)

    def summed() -> dict[str, Tensor]:
        return {**ENGINES[engine].clipped_sum(model, lambda y, _: y.sum(), Chunk(x, torch.zeros(ROWS)), clip)}

    if failing == 1:
        assert summed().keys() == {"matrix"}
        assert len(calls) == 1
    else:
        with pytest.raises(RuntimeError, match="not enough memory"):
            summed()
