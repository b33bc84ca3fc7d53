"""One unit, whatever its rows hold, moves what is released by no more than the sensitivity that noise is made for.

In every engine, with the batch cut into chunks in different ways. The rows of one unit are made by an adversary; the
others are ordinary, since the float slack of the fast engines is an assumption about those (`exact` needs none).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from adversarial_rows import (
    CHECKED,
    LOSSES,
    NAMED,
    ROWS,
    TARGETS,
    VALUES,
    Batch,
    distance,
    logarithm,
    proportional,
    share_moved,
    squared,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, weights
from discreet.clipping.engines import bookkeeping
from discreet.clipping.rules import base, linear, unit_rules
from discreet.clipping.rules.products import gram
from discreet.clipping.separation.recording.recorder import as_proved

NORMS = (1e-2, 1.0, 300.0)


def drawn_row(data: st.DataObject, ordinary: Tensor) -> Tensor:
    """A row with a few values of the adversary's, or full of them; its first half may come again with a minus."""
    size = ordinary.numel()
    values = data.draw(st.lists(VALUES, min_size=1, max_size=data.draw(st.sampled_from([1, 2, 5, size]))))
    row = ordinary.reshape(-1).clone()
    for place in range(size if data.draw(st.booleans()) else min(size, len(values))):
        row[place] = values[place % len(values)]
    row = row.view(ordinary.shape)
    if data.draw(st.booleans()):
        half = len(row) // 2
        row[half : 2 * half] = -row[:half]
    return row


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_unit_moves_a_sum_further_than_the_sensitivity(engine: str, data: st.DataObject) -> None:
    target = TARGETS[data.draw(st.sampled_from(sorted(TARGETS)))]
    model, inputs, targets = target.make()
    sizes = data.draw(st.sampled_from([(1,) * ROWS, (1, 1, 1, 2)]))
    if not target.tokens:
        inputs[-1] = drawn_row(data, inputs[-1])
        if sizes[-1] == 2:
            inputs[-2] = data.draw(st.sampled_from([1.0, -1.0])) * inputs[-1]
    if target.tokens or data.draw(st.booleans()):
        targets[-1] = data.draw(VALUES)
        targets[-2] = -targets[-1] if sizes[-1] == 2 else targets[-2]
    batch = Batch(model, data.draw(st.sampled_from(LOSSES)), inputs, targets, sizes)
    assert share_moved(CHECKED[engine], batch, data.draw(st.sampled_from(NORMS))) <= 1


def alone(name: str, *values: float, label: float | None = None) -> Batch:
    """Four ordinary rows of a model and one that repeats `values`."""
    model, inputs, targets = TARGETS[name].make()
    if values:
        inputs[-1] = torch.tensor(values).repeat(inputs[-1].numel() // len(values)).view(inputs[-1].shape)
    targets[-1] = targets[-1] if label is None else label
    return Batch(model, squared, inputs, targets, (1,) * ROWS)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", NAMED)
def test_a_row_of_one_value(engine: str, value: float) -> None:
    for name in ("linear", "no rule, called twice"):
        assert share_moved(CHECKED[engine], alone(name, value), 1.0) <= 1
    assert share_moved(CHECKED[engine], alone("linear", label=value), 0.01) <= 1


@pytest.mark.parametrize("value", [2e21, 3e22, 5e22])
def test_a_weight_that_single_precision_cannot_hold_is_zero(value: float) -> None:
    """Rounded to a subnormal number it may be up to twice as large; the gradient itself overflows anyway."""
    batch = alone("linear", value, -value / 2, value / 3, value / 5)
    for engine in CHECKED.values():
        assert share_moved(engine, batch, 1.0) < 1e-5


def smallest_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(weights, "_smallest", lambda parameters: 0.0)


def cancelling(name: str, size: float, sizes: tuple[int, ...] = (1,) * ROWS) -> Batch:
    """The last unit's gradient is a sum of long terms and of the same with a minus; every other weight is frozen."""
    model, inputs, targets = TARGETS[name].make()
    inputs[-1] *= size
    half = len(inputs[-1]) // 2
    if "twice" in name:  # one call is given what the other is given, back to front
        inputs[-1, half:] = inputs[-1, :half].flip(0)
    elif sizes[-1] == 1:
        inputs[-1, half:] = -inputs[-1, :half]
    if sizes[-1] == 2:
        inputs[-2], targets[-2] = -inputs[-1], targets[-1]
    for key, parameter in model.named_parameters():
        parameter.requires_grad_(not key.endswith("bias"))
    return Batch(model, proportional, inputs, targets, sizes)


CANCELLING = {
    "positions": lambda: cancelling("wide positions", 1e7),
    "units": lambda: cancelling("wide convolution", 1e7, (1, 1, 1, 2)),
    "calls": lambda: cancelling("convolution called twice", 1e7),
    "units and calls": lambda: cancelling("convolution called twice", 1e7, (1, 1, 1, 2)),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CANCELLING)
def test_terms_that_cancel_do_not_let_their_rounding_through(name: str, engine: str) -> None:
    assert share_moved(CHECKED[engine], CANCELLING[name](), 1.0) <= 1


@pytest.mark.parametrize("engine", ENGINES)
def test_terms_beyond_all_range_that_cancel_contribute_nothing(engine: str) -> None:
    """Two rows of a unit with opposite gradients, whose own lengths overflow while their mean is zero."""
    model, inputs, targets = TARGETS["convolution called twice"].make()
    inputs[-2:, 0, :3] = 1e30
    targets[-2:] = torch.tensor([-1e30, 1e30])
    batch = Batch(model, logarithm, inputs, targets, (1, 1, 1, 2))
    assert share_moved(CHECKED[engine], batch, 0.01) <= 1


def rounding_not_measured(patch: pytest.MonkeyPatch) -> None:
    def as_it_is(squares: Tensor, *_: object) -> Tensor:
        return squares

    patch.setattr(bookkeeping, "with_rounding", as_it_is)
    patch.setattr(linear, "with_rounding", as_it_is)
    patch.setattr(gram, "with_rounding", as_it_is)


def rows_of_units_added_up(patch: pytest.MonkeyPatch) -> None:
    """The sum is made of gradients of rows, and not of the means that were measured."""

    def total(self: unit_rules.OfUnits, name: str, weights: Tensor) -> Tensor:
        return self._inner.total(name, self._units.shared(weights))

    patch.setattr(unit_rules.OfUnits, "total", total)


def calls_added_up(patch: pytest.MonkeyPatch) -> None:
    """The sum is made of the sums of calls, and not of the gradients that were measured."""

    def total(held: list[bookkeeping.Share], parameter: nn.Parameter, weights: Tensor) -> Tensor:
        return torch.stack([one.total(name, weights).view(parameter.shape) for one, name in held]).double().sum(0)

    patch.setattr(bookkeeping, "_plain_total", total)


def unmeasured_calls_added_up(patch: pytest.MonkeyPatch) -> None:
    calls_added_up(patch)
    rounding_not_measured(patch)


def calls_of_units_added_up(patch: pytest.MonkeyPatch) -> None:
    calls_added_up(patch)
    rows_of_units_added_up(patch)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_that_makes_zero_not_finite_once_it_is_dropped(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped, its inputs are zeros, by which the module divides; in blocks its gradient is formed anew from those. As
    in a run, the module runs again for one row as for several."""
    for budget in (base.BUDGET, 1):
        monkeypatch.setattr(base, "BUDGET", budget)
        for name in ("no rule", "no rule, called twice"):
            batch = alone(name, math.nan)
            with as_proved(()):
                assert share_moved(CHECKED[engine], batch, 1.0) < 1e-5


def dropped_rows_formed_again(patch: pytest.MonkeyPatch) -> None:
    real = base.Formed.drop_rows

    def drop_rows(self: base.Formed, unusable: Tensor) -> None:
        real(self, unusable)
        self._unusable = None

    patch.setattr(base, "BUDGET", 1)
    patch.setattr(base.Formed, "drop_rows", drop_rows)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_infinite_loss_with_a_finite_gradient_counts(engine: str) -> None:
    """It is the gradient that is clipped. Losses of two rows that are not a number together change nothing either."""

    def shifted(output: Tensor, target: Tensor) -> Tensor:
        return output.sum() + target.sum()

    for criterion, labels in ((distance, (math.inf, 1.0)), (squared, (1e25, 1.0)), (shifted, (math.inf, -math.inf))):
        batch = alone("linear")
        batch.targets[-2:] = torch.tensor(labels).flip(0)
        found = Batch(batch.model, criterion, batch.inputs, batch.targets, batch.sizes)
        assert 0.99 < share_moved(CHECKED[engine], found, 0.01) <= 1


PLANTED = [
    (smallest_ignored, lambda: alone("linear", 3e22, -1.5e22, 1e22, 6e21)),
    (rounding_not_measured, CANCELLING["positions"]),
    (unmeasured_calls_added_up, CANCELLING["calls"]),
    (rows_of_units_added_up, CANCELLING["units"]),
    (calls_of_units_added_up, CANCELLING["units and calls"]),
    (dropped_rows_formed_again, lambda: alone("no rule, called twice", math.nan)),
]


@pytest.mark.parametrize(("plant", "batch"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], batch: Callable[[], Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):  # what is not a number is no fraction either
        assert share_moved(CHECKED["bookkeeping"], batch(), 1.0) <= 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_statistics_kept_from_before_in_any_type(kind: type[nn.Module], dtype: torch.dtype) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        norm = kind(3, affine=True, track_running_stats=True).to(dtype).eval()
        inputs, targets = torch.rand(4, 3, 5, dtype=dtype), torch.rand(4, dtype=dtype)
    clip = Clip(0.1, 2.0**-30)
    one, other = (
        ENGINES[e].clipped_sum(norm, squared, Chunk(inputs, targets), clip) for e in ("bookkeeping", "reference")
    )
    for key in one:
        torch.testing.assert_close(one[key].double(), other[key].double(), rtol=0.05, atol=1e-3)
