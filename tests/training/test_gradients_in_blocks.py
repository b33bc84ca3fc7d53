"""A large model's gradients are compared a few units at a time: with the same result, and never all of them at once."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from problems import CLASSES, blobs
from torch import Tensor, nn

from discreet.clipping import Clip, Group, Units
from discreet.clipping.admission import backward_mixing
from discreet.training import EngineOptions
from discreet.training.preflight import engine_comparison
from discreet.training.preflight.engine_comparison import CUTS, Comparison
from discreet.training.preflight.random_rows import UNITS, Examples

NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")
CLIPS = {
    "flat": Clip(0.5, 2.0**-30),
    "automatic": Clip(0.5, 2.0**-30, gamma=0.01),
    "with a bit": Clip(0.5, 2.0**-30, bit=0.1),
    "groups": Clip.grouped((Group(0.3, frozenset(NAMES[:2])), Group(0.4, frozenset(NAMES[2:]))), 2.0**-30),
}


def model(*, drop: float = 0.0) -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 6), nn.Dropout(drop), nn.Linear(6, CLASSES))


def compared(monkeypatch: pytest.MonkeyPatch, clip: Clip, given: nn.Module, *, blocks: bool, units: bool) -> Comparison:
    """A comparison with one unit at a time and no memory for all, or with all units at once."""
    if blocks:
        monkeypatch.setattr(engine_comparison, "_GRADIENT_MEMORY", 1)
        monkeypatch.setattr(engine_comparison, "_KEPT_MEMORY", 0)
    sizes = tuple(1 + i % 2 for i in range(UNITS))
    x, y = (part[: sum(sizes) if units else UNITS] for part in blobs())
    examples = Examples(x, y, Units(sizes) if units else None)
    return Comparison(EngineOptions("vmap"), given.train(), nn.CrossEntropyLoss(), examples, (clip,))


@pytest.mark.parametrize("units", [False, True], ids=["rows", "units"])
@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
def test_a_unit_at_a_time_gives_the_same(monkeypatch: pytest.MonkeyPatch, clip: Clip, units: bool) -> None:
    whole = compared(monkeypatch, clip, model(), blocks=False, units=units)
    several = compared(monkeypatch, clip, model(), blocks=True, units=units)
    assert len([*whole._gradients()]) == 1
    assert len([*several._gradients()]) == UNITS
    assert [(one.norm, one.groups, one.gamma, one.bit) for one in whole.clips] == [
        (one.norm, one.groups, one.gamma, one.bit) for one in several.clips
    ]
    for name in ("bookkeeping", "ghost", "vmap", "reference", "exact"):
        one, other = whole.distance(name), several.distance(name)
        assert one.reference == pytest.approx(other.reference, rel=1e-6, abs=1e-14)
        assert one.singles == one.reference < 1e-5
    assert not whole.draws
    assert not several.draws


@pytest.mark.parametrize("blocks", [False, True])
def test_random_numbers_are_seen_in_blocks_too(monkeypatch: pytest.MonkeyPatch, blocks: bool) -> None:
    stage = compared(monkeypatch, CLIPS["flat"], model(drop=0.5), blocks=blocks, units=False)
    assert stage.draws
    assert stage.fixed


class DropPath(nn.Module):
    """Leaves out what a whole row has, seldom."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        kept = (0.9 + torch.rand(len(x), 1)).floor() if self.training else 1.0
        return self.last(self.first(x) * kept)


@pytest.mark.parametrize("blocks", [False, True])
def test_what_happens_to_few_units_is_seen_as_every_unit_draws_for_itself(
    monkeypatch: pytest.MonkeyPatch, blocks: bool
) -> None:
    """With the same draws for all units, none or all of them would be left out: nine times in ten none."""
    torch.manual_seed(5)
    stage = compared(monkeypatch, CLIPS["flat"], DropPath(), blocks=blocks, units=False)
    assert stage.draws
    assert stage.fixed


def test_a_sum_that_is_no_number_is_infinitely_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = compared(monkeypatch, CLIPS["flat"], model(), blocks=False, units=False)
    real = stage.sums

    def sums(*given: Any) -> dict[str, Tensor]:
        return {name: part.mul_(float("nan")) for name, part in real(*given).items()}

    monkeypatch.setattr(stage, "sums", sums)
    assert stage.distance("vmap").reference == float("inf")


def test_no_more_than_a_few_gradients_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """By three engines, on two kinds of rows: with all at once, twelve gradients are there three times."""
    real, living, most = engine_comparison.unit_gradients, [0], [0]

    def gone() -> None:
        living[0] -= 1

    def counted(*given: Any) -> dict[str, Tensor]:
        found = real(*given)
        living[0] += 1
        most[0] = max(most[0], living[0])
        weakref.finalize(found[NAMES[0]], gone)
        return found

    monkeypatch.setattr(engine_comparison, "unit_gradients", counted)
    stage = compared(monkeypatch, CLIPS["flat"], model(), blocks=True, units=False)
    for name in ("bookkeeping", "ghost", "vmap"):
        stage.distance(name)
        stage.on(stage.examples).distance(name, CUTS[-1:])
    assert 1 <= most[0] <= 5


def test_gradients_of_weights_are_not_kept_on_the_way_back() -> None:
    """They are shared by all examples, so they are not compared; the others are there, to be compared."""
    x, y = (part[:4] for part in blobs())
    given, loss, weights = model().train(), nn.CrossEntropyLoss(), torch.ones(4)
    shorter = backward_mixing._back(given, loss, (x[:-1], y[:-1]), weights[:-1])
    usual = backward_mixing._back(given, loss, (x, y), weights, shorter)
    kept = [part for _, _, parts in usual.visits for part in parts if part is not None and not part.is_meta]
    shared = [part for _, _, parts in usual.visits for part in parts if part is not None and part.is_meta]
    assert kept
    assert all(len(part) == 4 for part in kept)
    assert {tuple(part.shape) for part in shared} >= {(4, 6), (6, 3)}  # of both weights, before they are transposed
