"""Each unit takes part as long as its own budget lasts, and what it does depends on no other unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from neighbours import FULL, ROWS, budget_plan, moved_by_one, sums_on_a_path
from problems import blobs
from scipy.stats import norm

from discreet.clipping import Clip
from discreet.core.errors import PrivacyViolation
from discreet.ledger.units_spent import PARTS
from discreet.plan import NoSampling
from discreet.training import individual_filter
from discreet.training.individual_filter import IndividualFilter, parts_of
from discreet.training.preflight import plan_check

GRID = 2.0**-20
vectors = st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=6)


def sums(multiples: list[int], grid: float = GRID) -> dict[str, torch.Tensor]:
    half = len(multiples) // 2
    parts = {"a": multiples[:half], "b": multiples[half:]}
    return {name: torch.tensor(part, dtype=torch.float64) * grid for name, part in parts.items()}


def share(multiples: list[int], sensitivity: float, grid: float = GRID) -> Fraction:
    """|sum|^2 / sensitivity^2 in rational numbers."""
    return sum(Fraction(one) ** 2 for one in multiples) * (Fraction(grid) / Fraction(sensitivity)) ** 2


@settings(max_examples=200, deadline=None, derandomize=True)
@given(multiples=vectors, sensitivity=st.floats(3.0, 1e4), grid=st.sampled_from([GRID, 2.0**-500, 2.0**3]))
def test_a_step_is_charged_by_its_length_rounded_up_and_by_hardly_more(
    multiples: list[int], sensitivity: float, grid: float
) -> None:
    scaled = sensitivity * grid / GRID
    exact = share(multiples, scaled, grid)
    found = Fraction(parts_of(sums(multiples, grid), Clip(scaled, grid)), PARTS)
    assert exact <= found <= exact * (1 + Fraction(1, 2**45)) + Fraction(1, PARTS)
    assert (found == 0) == (not any(multiples))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps=st.lists(vectors, min_size=1, max_size=12), full=st.integers(1, 4))
def test_no_unit_is_ever_above_its_budget_nor_left_out_too_early(steps: list[list[int]], full: int) -> None:
    """Three units: one with the drawn vectors, one with none, one at full length. In rational numbers."""
    sensitivity = 2.5
    clip, taking, spent = Clip(sensitivity, GRID), IndividualFilter(full, 3), Fraction(0)
    longest = [int(sensitivity / GRID)]
    for number, multiples in enumerate(steps):
        taking.begin(first=number == 0)
        takes = taking.admits(sums(multiples), clip)
        cost = min(share(multiples, sensitivity), Fraction(1))
        if takes:
            spent += cost
        else:
            assert spent + cost > full - Fraction(2 * (number + 1), PARTS)
        assert spent <= full
        assert taking.admits(sums([0, 0]), clip)
        assert taking.admits(sums(longest), clip) == (number < full)
        taking.settle()


def one_step_too_many(patch: pytest.MonkeyPatch) -> None:
    """As if a budget had to be used up before the step, not with it."""
    real = IndividualFilter.__init__

    def more(self: Any, full: int, *rest: Any) -> None:
        real(self, full, *rest)
        self._budget += PARTS

    patch.setattr(IndividualFilter, "__init__", more)


def charged_by_half(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(individual_filter, "parts_of", lambda *given: parts_of(*given) // 2)


def others_decide(patch: pytest.MonkeyPatch) -> None:
    """Units are left out by what all of them have spent together."""
    real = IndividualFilter.admits

    def admits(self: Any, added: Any, clip: Clip) -> bool:
        return real(self, added, clip) and int(self._spent.sum()) % 2 == 0

    patch.setattr(IndividualFilter, "admits", admits)


@pytest.mark.parametrize("place", [0, 5, ROWS - 1])
def test_one_unit_moves_the_sums_of_a_period_by_its_budget_at_most(tmp_path: Path, place: int) -> None:
    """On a path of releases that is made up, so that only the unit itself may make a difference."""
    moved = moved_by_one(tmp_path / "filtered", place)
    assert 0.8 * FULL <= moved <= FULL
    assert moved_by_one(tmp_path / "not", place, plan=budget_plan(sampling=NoSampling()), engine="exact") > 1.5 * FULL


def test_so_it_does_with_clip_norms_that_change(tmp_path: Path) -> None:
    clipping = {"kind": "adaptive", "initial": 0.2, "bit_multiplier": 30.0}
    assert 0.8 * FULL <= moved_by_one(tmp_path / "bits", 2, plan=budget_plan(clip_norm=None, clipping=clipping)) <= FULL


@pytest.mark.parametrize("plant", [one_step_too_many, charged_by_half, others_decide])
def test_a_broken_filter_is_found(
    tmp_path: Path, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert moved_by_one(tmp_path, 5) > 1.05 * FULL


def test_units_in_one_chunk_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = plan_check.engine_for
    monkeypatch.setattr(
        "discreet.training.checklist.engine_for", lambda *given: replace(real(*given), physical_batch=4)
    )
    with pytest.raises(PrivacyViolation, match="nothing was released"):
        sums_on_a_path(tmp_path, blobs(ROWS))


def simulated(full: int, steps: int, noise: float, runs: int) -> dict[str, np.ndarray]:
    """Privacy losses log dP/dQ of runs whose unit chooses its length by what was released, under P and under Q.

    Each run is a unit of one filter. A unit that is ahead goes on at full length, another one at half of it, and both
    with what is left in the end; then they try it again at full length.
    """
    losses, clip = {}, Clip(1.0, GRID)
    for law, there in (("P", 1.0), ("Q", 0.0)):
        draw, taking, loss = np.random.default_rng(8), IndividualFilter(full, runs), np.zeros(runs)
        left = np.full(runs, float(full))
        for step in range(steps):
            wanted = np.minimum(np.where(loss > 0.0, 1.0, 0.5), np.floor(np.sqrt(left) / GRID) * GRID)
            wanted[left < 1e-4] = 1.0
            taking.begin(first=step == 0)
            gradients = torch.from_numpy(wanted).float().double().split(1)
            takes = np.array([taking.admits({"w": one}, clip) for one in gradients])
            taking.settle()
            length = wanted * takes
            left = np.maximum(left - np.square(length) - 2 / PARTS, 0)
            released = there * length + noise * draw.normal(size=runs)
            loss += (released * length - length**2 / 2) / noise**2
        losses[law] = loss
    return losses


def beyond(losses: dict[str, np.ndarray], mu: float) -> float:
    """The largest excess of an empirical delta over that of mu-Gaussian DP, in standard errors."""
    worst = -math.inf
    for epsilon in (0.2, 1.0, 2.0):
        claim = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        for values in (losses["P"], -losses["Q"]):
            seen = np.maximum(0.0, -np.expm1(epsilon - values))
            worst = max(worst, float((seen.mean() - claim) / (seen.std() / math.sqrt(len(seen)))))
    return worst


def test_whoever_adapts_to_releases_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six checks; 5 standard errors are a false alarm in 2e-6 cases in all. A filter with a step too many is found."""
    mu = math.sqrt(2) / 1.5
    assert -4 < beyond(simulated(2, 9, 1.5, 20000), mu) < 5
    one_step_too_many(monkeypatch)
    assert beyond(simulated(2, 9, 1.5, 20000), mu) > 20
