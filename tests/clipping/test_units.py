"""Units of several rows are clipped as a whole, by every engine and every rule.

The oracle is one backward pass through the mean of a unit's losses. Adversarial units: rows duplicated, cancelling, all
the same, very long, not finite.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import PROBLEMS, criterion, typical_norm
from promises import exactly, units_of
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Units, private_parameters
from discreet.clipping.engines import bookkeeping
from discreet.clipping.rules import OfUnits, base, linear
from discreet.core.errors import InputError

LOSS = nn.CrossEntropyLoss()
CLIP = Clip(0.5, 2.0**-30)
FAST = sorted(set(ENGINES) - {"exact"})


def oracle(model: nn.Module, loss: Any, inputs: Tensor, targets: Tensor, norm: float, sizes: tuple[int, ...]) -> Tensor:
    """Unit by unit: the gradient of the mean of its rows' losses, scaled down to `norm`, added up and flattened."""
    parameters = list(private_parameters(model).values())
    total = torch.zeros(sum(parameter.numel() for parameter in parameters), dtype=torch.float64)
    for x, y in zip(inputs.split(sizes), targets.split(sizes), strict=True):
        mean = torch.stack([loss(model(x[i : i + 1]), y[i : i + 1]).sum() for i in range(len(x))]).mean()
        parts = torch.autograd.grad(mean, parameters, allow_unused=True)
        flat = torch.cat(
            [torch.zeros(p.numel()) if g is None else g.flatten() for g, p in zip(parts, parameters, strict=True)]
        ).double()
        total += flat * min(1.0, norm / max(float(flat.norm()), 1e-300))
    return total


def flat(sums: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensor.double().flatten() for tensor in sums.values()]).double()


def mlp(seed: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3))


def rows(count: int, seed: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=generator), torch.arange(count) % 3


def summed(engine: str, inputs: Tensor, targets: Tensor, *sizes: int, clip: Clip = CLIP) -> Tensor:
    return flat(ENGINES[engine].clipped_sum(mlp(), LOSS, Chunk(inputs, targets, Units(sizes)), clip))


@pytest.mark.parametrize("sizes", [(1,), (4,), (1, 3, 2), (2, 2, 2), (5, 1, 1)])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_sum_of_clipped_means(engine: str, sizes: tuple[int, ...]) -> None:
    inputs, targets = rows(sum(sizes))
    for norm in (0.05, 0.5, 1e3):
        found = summed(engine, inputs, targets, *sizes, clip=Clip(norm, 2.0**-40))
        expected = oracle(mlp(), LOSS, inputs, targets, norm, sizes)
        torch.testing.assert_close(found, expected, rtol=0, atol=5e-6 * min(norm, 1.0))


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_rule_measures_units_as_a_whole(name: str, data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    model, inputs, targets = PROBLEMS[name](data.draw).make(sum(sizes), torch.float64, data.draw(st.integers(0, 99)))
    norm = 0.5 * typical_norm(model, inputs, targets)
    for engine in ("bookkeeping", "reference"):
        found = flat(
            ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets, Units(sizes)), Clip(norm, 2.0**-30))
        )
        expected = oracle(model, criterion, inputs, targets, norm, sizes)
        assert float((found - expected).norm()) <= 1e-9 * norm * len(sizes)


@pytest.mark.parametrize("budget", [1, 2000])
def test_units_are_measured_block_by_block(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for one row at a time, and for a few; rules of every kind by the general way."""
    inputs, targets = rows(9)
    whole = summed("bookkeeping", inputs, targets, 4, 1, 2, 2)
    monkeypatch.setattr(linear.LinearRule, "of_units", base.Rule.of_units)
    monkeypatch.setattr(base, "BUDGET", budget)
    seen = []
    real = OfUnits.squares
    monkeypatch.setattr(OfUnits, "squares", lambda self, name: seen.append(name) or real(self, name))
    torch.testing.assert_close(summed("bookkeeping", inputs, targets, 4, 1, 2, 2), whole, rtol=0, atol=1e-6)
    assert set(seen) == {"weight", "bias"}


@pytest.mark.parametrize("engine", ENGINES)
def test_units_of_one_row_are_examples_to_the_bit(engine: str) -> None:
    inputs, targets = rows(7)
    examples = flat(ENGINES[engine].clipped_sum(mlp(), LOSS, Chunk(inputs, targets), CLIP))
    assert torch.equal(summed(engine, inputs, targets, *[1] * 7), examples)


@pytest.mark.parametrize("engine", ENGINES)
def test_duplicated_rows_count_once(engine: str) -> None:
    inputs, targets = rows(3)
    once = summed(engine, inputs, targets, 1, 1, 1)
    copies = torch.tensor([0] * 5 + [1, 2])
    torch.testing.assert_close(summed(engine, inputs[copies], targets[copies], 5, 1, 1), once, rtol=0, atol=1e-6)


def adversarial(kind: str) -> tuple[Tensor, Tensor]:
    """Five rows of one unit."""
    inputs, targets = rows(5, seed=9)
    if kind == "duplicated":
        inputs, targets = inputs[[0, 0, 0, 1, 1]], targets[[0, 0, 0, 1, 1]]
    elif kind == "all the same":
        inputs, targets = inputs[:1].repeat(5, 1), targets[:1].repeat(5)
    elif kind == "cancelling":
        # Labels that pull the last layer in different ways.
        inputs, targets = inputs[:1].repeat(5, 1), torch.tensor([0, 1, 2, 0, 1])
    elif kind == "long":
        inputs = inputs * 1e4
    elif kind == "one long":
        inputs[2] *= 1e6
    return inputs, targets


@pytest.mark.parametrize("kind", ["ordinary", "duplicated", "all the same", "cancelling", "long", "one long"])
@pytest.mark.parametrize("engine", ENGINES)
def test_no_unit_moves_the_sum_by_more_than_the_clip_norm(engine: str, kind: str) -> None:
    others, labels = rows(4)
    x, y = adversarial(kind)
    for norm in (0.05, 0.5):
        clip = Clip(norm, 2.0**-30)
        rest = summed(engine, others, labels, 1, 3, clip=clip)
        whole = summed(engine, torch.cat([others, x]), torch.cat([labels, y]), 1, 3, 5, clip=clip)
        moved = float((whole - rest).norm())
        assert moved <= norm * (1 + 1e-5)
        if kind == "all the same":
            assert moved >= norm * (1 - 1e-5)  # it is clipped, and not lost


def test_the_bound_above_is_missed_if_rows_are_clipped_one_by_one() -> None:
    """What the bound is worth: five equal rows, each clipped alone, move the sum by five times the clip norm."""
    x, y = adversarial("all the same")
    alone = flat(ENGINES["reference"].clipped_sum(mlp(), LOSS, Chunk(x, y), Clip(0.05, 2.0**-30)))
    assert float(alone.norm()) > 4.9 * 0.05


def test_exact_sums_of_units_are_whole_numbers_within_the_clip_norm() -> None:
    x, y = adversarial("long")
    others, labels = rows(4)
    for grid in (2.0**-30, 2.0**-4):
        clip = Clip(0.5, grid)
        sums = ENGINES["exact"].clipped_sum
        whole = units_of(
            sums(mlp(), LOSS, Chunk(torch.cat([others, x]), torch.cat([labels, y]), Units((1, 3, 5))), clip), grid
        )
        rest = units_of(sums(mlp(), LOSS, Chunk(others, labels, Units((1, 3))), clip), grid)
        alone = units_of(sums(mlp(), LOSS, Chunk(x, y, Units((5,))), clip), grid)
        assert [a + b for a, b in zip(rest, alone, strict=True)] == whole
        assert sum(unit**2 for unit in alone) <= (exactly(clip.norm) / exactly(grid)) ** 2


class OfNoPlaces(nn.Module):
    """A layer on the rows, beside one that is given none of their places."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused = nn.Linear(4, 3), nn.Linear(4, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        outcome: Tensor = self.layer(x) + self.unused(x.unsqueeze(1)[:, :0]).sum(1)
        return outcome


@pytest.mark.parametrize("engine", FAST)
def test_a_layer_that_is_given_no_places_adds_nothing(engine: str) -> None:
    sums = ENGINES[engine].clipped_sum(OfNoPlaces(), LOSS, Chunk(*rows(3), Units((1, 2), at_most=3)), CLIP)
    assert not sums["unused.weight"].any()
    assert sums["layer.weight"].any()


@pytest.mark.parametrize("size", [8, 64])
def test_in_scales_a_user_with_several_rows_does_not_take_others_out(size: int) -> None:
    """The first unit has factors of 1e-20 and more than 1e30. Whether it counts must not follow from another unit that
    has two rows, and no gradient."""
    layer = nn.Linear(size, size, bias=False)
    generator = torch.Generator().manual_seed(2)
    inputs, targets = (torch.randn(4, size, generator=generator) for _ in range(2))
    inputs[:1] *= 1e-20
    targets[:1] *= 1e31
    inputs[2:] = targets[2:] = 0.0
    clip = Clip(0.5, 2.0**-30, scales={"weight": torch.ones(size, size, dtype=torch.float64)})

    def found(*sizes: int) -> Tensor:
        given = inputs[: sum(sizes)], targets[: sum(sizes)]
        units = Units(sizes, at_most=4)
        return flat(
            ENGINES["bookkeeping"].clipped_sum(layer, lambda out, y: (out * y).sum(1), Chunk(*given, units), clip)
        )

    torch.testing.assert_close(found(1, 1), found(1, 1, 2), rtol=0, atol=1e-6)


class Tempered(nn.Module):
    """A parameter without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


@pytest.mark.parametrize("engine", ENGINES)
def test_in_scales_a_unit_that_is_not_finite_goes_with_a_parameter_without_dimensions(engine: str) -> None:
    inputs, targets = rows(3)[0], torch.ones(3, 4)
    clip = Clip(0.5, 2.0**-30, scales={"scale": torch.tensor(2.0, dtype=torch.float64)})

    def found(*sizes: int) -> Tensor:
        given = inputs[: sum(sizes)], targets[: sum(sizes)]
        units = Units(sizes, at_most=2)
        return flat(
            ENGINES[engine].clipped_sum(Tempered(), lambda out, y: (out * y).sum(1), Chunk(*given, units), clip)
        )

    rest = found(2)
    targets[2] = torch.nan
    torch.testing.assert_close(found(2, 1), rest, rtol=0, atol=1e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e38])
@pytest.mark.parametrize("engine", ENGINES)
def test_one_row_that_is_not_finite_takes_its_whole_unit_out(engine: str, value: float) -> None:
    inputs, targets = rows(6)
    rest = summed(engine, inputs[[0, 1, 5]], targets[[0, 1, 5]], 2, 1)
    inputs[3] = value
    whole = summed(engine, inputs, targets, 2, 3, 1)
    assert bool(torch.isfinite(whole).all())
    if value == 1e38:  # a finite row may count, up to the clip norm
        assert float((whole - rest).norm()) <= CLIP.norm * (1 + 1e-5)
    else:
        torch.testing.assert_close(whole, rest, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=1, deadline=None, derandomize=True)
@given(data=st.data())
def test_by_every_rule_a_row_that_is_not_finite_leaves_other_units_alone(name: str, data: st.DataObject) -> None:
    model, inputs, targets = PROBLEMS[name](data.draw).make(6, torch.float64, 4)
    clip = Clip(0.5 * typical_norm(model, inputs, targets), 2.0**-30)
    function = ENGINES["bookkeeping"].clipped_sum
    rest = flat(function(model, criterion, Chunk(inputs[[0, 1, 5]], targets[[0, 1, 5]], Units((2, 1))), clip))
    targets[3] = float("nan")
    whole = flat(function(model, criterion, Chunk(inputs, targets, Units((2, 3, 1))), clip))
    assert float((whole - rest).norm()) <= 1e-9 * clip.norm


@pytest.mark.parametrize("engine", FAST)
def test_chunks_of_units_make_no_difference(engine: str) -> None:
    inputs, targets = rows(8)
    model = mlp().double()
    function = ENGINES[engine].clipped_sum
    whole = flat(function(model, LOSS, Chunk(inputs.double(), targets, Units((3, 1, 2, 2))), CLIP))
    parts = [
        flat(function(model, LOSS, Chunk(x.double(), y, Units(sizes)), CLIP))
        for x, y, sizes in zip(inputs.split([4, 4]), targets.split([4, 4]), [(3, 1), (2, 2)], strict=True)
    ]
    torch.testing.assert_close(whole, parts[0] + parts[1], rtol=0, atol=1e-12)


def test_no_row_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of different sizes are not filled up: the model is called with their rows and nothing else."""
    seen: list[Tensor] = []
    model = mlp()
    model.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach().clone()))
    inputs, targets = rows(6)
    ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(inputs, targets, Units((1, 4, 1))), CLIP)
    assert len(seen) == 1
    assert torch.equal(seen[0], inputs)


def test_a_unit_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="at least one row"):
        Units((2, 0))


def test_one_pass_for_all_units(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = bookkeeping.record
    monkeypatch.setattr(bookkeeping, "record", lambda *args: calls.append(1) or real(*args))
    summed("bookkeeping", *rows(6), 1, 2, 3)
    assert calls == [1]
