"""The line search: how far one row moves the scores, and the law of the choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from agd_runs import BOUND, agd
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import FEATURES, blobs, linear
from scipy import stats
from torch import nn
from torch.utils.data import TensorDataset

from discreet.clipping import ENGINES
from discreet.core.errors import PrivacyViolation
from discreet.core.events import BoundedRange, Gaussian
from discreet.core.release import Receipt
from discreet.data import PrivateData, as_private
from discreet.methods import AGD
from discreet.queries.choices import FULL_SCORE
from discreet.randomness import TestStream
from discreet.training.control import step_size_search as search_module
from discreet.training.control.step_size_search import Candidates, StepSizeSearch, clipped_losses, objectives
from discreet.training.public.public_copy import PublicCopy

FALSE_ALARM = 1e-9
SIZES = (0.0, 0.5, 1.0, 40.0)


def candidates(seed: int = 0, sizes: tuple[float, ...] = SIZES) -> Candidates:
    model, generator = linear(seed), torch.Generator().manual_seed(seed)
    directions = {name: torch.randn(one.shape, generator=generator) for name, one in model.named_parameters()}
    return Candidates(model, directions, sizes)


def scores(data: Any, *, chunk: int = 7, seed: int = 0) -> Any:
    return objectives(candidates(seed), nn.CrossEntropyLoss(), as_private(data), BOUND, chunk)


# One row --------------------------------------------------------------------------------------------------------------

HARD = st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e10, -1e10, 3e38, -3e38, math.inf, -math.inf, math.nan])


@settings(max_examples=80, deadline=None)
@given(st.lists(HARD, min_size=FEATURES, max_size=FEATURES), st.integers(0, 2), st.integers(0, 24), st.integers(0, 3))
def test_a_row_adds_between_0_and_the_bound_to_every_score(
    row: list[float], target: int, place: int, seed: int
) -> None:
    """Rows made for the purpose, anywhere in the data. Predicted alone, so to the last bit."""
    inputs, targets = blobs(24)
    more = torch.cat([inputs[:place], torch.tensor([row]), inputs[place:]])
    labels = torch.cat([targets[:place], torch.tensor([target]), targets[place:]])
    change = scores((more, labels), seed=seed) - scores((inputs, targets), seed=seed)
    assert ((change >= 0) & (change <= FULL_SCORE)).all()


def test_without_clipping_a_row_would_move_them_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, targets = blobs(24)
    hard = torch.cat([inputs, torch.full((1, FEATURES), 1e4)]), torch.cat([targets, torch.tensor([2])])
    assert scores(hard).max() - scores((inputs, targets)).max() <= FULL_SCORE
    monkeypatch.setattr(
        search_module,
        "clipped_losses",
        lambda losses, bound: (losses.double() * (FULL_SCORE / bound)).round().to(torch.int64),
    )
    change = scores(hard) - scores((inputs, targets))
    assert change.max() > 100 * FULL_SCORE


def test_a_loss_that_is_no_number_counts_as_the_bound_and_changes_no_choice() -> None:
    losses = torch.tensor([math.nan, math.inf, -math.inf, -1.0, 0.0, 1.5, 3.0, 9.0, 1e38])
    whole = clipped_losses(losses, BOUND).tolist()
    assert whole == [FULL_SCORE, FULL_SCORE, FULL_SCORE, 0, 0, FULL_SCORE // 2, FULL_SCORE, FULL_SCORE, FULL_SCORE]
    inputs, targets = blobs(24)
    broken = torch.cat([inputs, torch.full((1, FEATURES), math.nan)]), torch.cat([targets, torch.tensor([1])])
    change = scores(broken, chunk=25) - scores((inputs, targets), chunk=25)
    assert change.tolist() == [FULL_SCORE] * len(SIZES)


def test_scores_are_sums_over_rows_however_they_are_cut_and_of_no_rows_zero() -> None:
    """Against a plain computation in double precision, row by row."""
    inputs, targets = blobs(30)
    line = candidates()
    expected = []
    for size in SIZES:
        weight, bias = (line.parameters(size)[name].double() for name in ("weight", "bias"))
        logits = inputs.double() @ weight.T + bias
        losses = torch.logsumexp(logits, 1) - logits[torch.arange(30), targets]
        expected.append(float(losses.clamp(0, BOUND).sum()))
    for chunk in (1, 4, 7, 30, 64):
        found = scores((inputs, targets), chunk=chunk)
        assert found.dtype == np.int64
        assert found * (BOUND / FULL_SCORE) == pytest.approx(expected, abs=1e-4)
    nobody = PrivateData(TensorDataset(inputs[:0], targets[:0]))
    assert objectives(line, nn.CrossEntropyLoss(), nobody, BOUND, 5).tolist() == [0] * len(SIZES)
    assert torch.equal(line.model.weight, linear().weight)  # type: ignore[arg-type]


def test_convolutions_are_the_same_in_the_faster_layout() -> None:
    """Against the model itself, moved there."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    line = Candidates(model, {name: torch.randn_like(one) for name, one in model.named_parameters()}, SIZES)
    inputs, targets = torch.randn(10, 1, 8, 8), torch.arange(10) % 3
    found = objectives(line, nn.CrossEntropyLoss(), as_private((inputs, targets)), BOUND, 4)
    for score, size in zip(found, SIZES, strict=True):
        there = {name: one - size * line.directions[name] for name, one in model.state_dict().items()}
        with torch.no_grad():
            output = torch.func.functional_call(model, there, (inputs,))
        losses = nn.functional.cross_entropy(output, targets, reduction="none").clamp(0, BOUND)
        assert score * (BOUND / FULL_SCORE) == pytest.approx(float(losses.double().sum()), abs=1e-4)


class Lingering(nn.Module):
    """A loss that is larger for three rows after one with huge outputs, and forgets it then."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0

    def forward(self, output: Any, target: Any) -> Any:
        loss = nn.functional.cross_entropy(output, target)
        if self.left > 0:
            self.left, loss = self.left - 1, loss + 100.0
        if bool(output.detach().abs().max() > 1e8):
            self.left = 3
        return loss


class Refusing(nn.Module):
    """A loss that fails on huge outputs."""

    def forward(self, output: Any, target: Any) -> Any:
        if bool(output.detach().abs().max() > 1e8):
            raise ValueError("huge")
        return nn.functional.cross_entropy(output, target)


@pytest.mark.parametrize("criterion", [Lingering(), Refusing(), nn.CrossEntropyLoss()])
def test_a_huge_row_moves_no_other(criterion: nn.Module) -> None:
    """A search that ran chunks at once had another bound for each row of the chunk. The other rows are long too, and
    their logits cancel, so that they round otherwise in a chunk of another size."""
    model, generator = nn.Linear(256, 3), torch.Generator().manual_seed(0)
    weight, inputs = model.weight.detach().double(), 1e6 * torch.randn(66, 256, generator=generator).double()
    between = torch.stack([weight[1] - weight[0], weight[2] - weight[0]])
    inputs = (inputs - (inputs @ between.T) @ torch.linalg.inv(between @ between.T) @ between).float()
    inputs[1] = 1e12
    targets = torch.arange(66) % 3
    line = Candidates(model, {name: 0.1 * torch.ones_like(one) for name, one in model.named_parameters()}, SIZES)
    kept = [i for i in range(66) if i != 1]
    whole, part = (
        objectives(line, criterion, as_private((inputs[rows], targets[rows])), BOUND, 64)
        for rows in ([*range(66)], kept)
    )
    assert all(0 <= change <= FULL_SCORE for change in (whole - part).tolist())


def test_the_objective_is_looked_at_without_dropout() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = linear()

        def forward(self, x: Any) -> Any:
            return self.head(nn.functional.dropout(x, 0.5, self.training))

    model = Dropped().train()
    line = Candidates(model, {name: torch.ones_like(one) for name, one in model.named_parameters()}, SIZES)
    one, other = (objectives(line, nn.CrossEntropyLoss(), as_private(blobs()), BOUND, 5) for _ in range(2))
    assert one.tolist() == other.tolist()
    assert model.training


# The law of the choice ------------------------------------------------------------------------------------------------


def searching(plan: Any, engine: str, data: Any = None) -> StepSizeSearch:
    model = linear()
    optimizer = AGD(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.tell(1.0)
    optimizer.step()
    private = as_private(blobs() if data is None else data)
    asked = PublicCopy.made(model, nn.CrossEntropyLoss(), ({}, {}))
    return StepSizeSearch(plan, model, optimizer, private, ENGINES[engine], 24, asked)


def drawn(search: StepSizeSearch, plan: Any, draws: int, cached: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(search_module, "objectives", lambda *_args, **_named: cached)
    stream, sizes = TestStream(11), plan.line_search.step_sizes(())
    found = [search.choose((), Receipt("r", 0, i, plan.line_search.event), stream) for i in range(draws)]
    return np.bincount([sizes.index(size) for size in found], minlength=len(sizes))


def fits(counts: Any, scores: Any) -> bool:
    law = np.exp(scores - scores.max())
    return bool(stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > FALSE_ALARM)


def test_the_choice_is_the_exponential_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square, false alarm 1e-9, on 20,000 draws; a tenth less noise would be found out."""
    plan = agd(epsilon=4.0)
    search = searching(plan, "exact")
    totals = np.array([60.0, 51.0, 57.0, 69.0, 78.0, 63.0, 55.5])  # clipped losses at the seven candidates
    cached = (totals * (FULL_SCORE / BOUND)).astype(np.int64)
    counts = drawn(search, plan, 20_000, cached, monkeypatch)
    assert plan.line_search is not None
    law = -plan.line_search.epsilon / BOUND * totals
    assert fits(counts, law)
    assert not fits(counts, law / 0.9)


@pytest.mark.parametrize(("engine", "wider"), [("exact", 1.0), ("bookkeeping", 1 + 4 * 30 * 2.0**-20)])
def test_scores_are_scaled_by_what_one_row_and_rounding_can_move(
    engine: str, wider: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 rows at most, of which each may be off by 2^-20 of the bound, before and after, up and down.

    Losses are in single precision, and round otherwise in batches of another size on some processors.
    """
    plan, seen = agd(), []
    monkeypatch.setattr(search_module, "noisy_argmax", lambda scaled, *_rest: seen.append(scaled) or 0)
    search = searching(plan, engine)
    assert search.choose((), Receipt("r", 0, 0, plan.line_search.event), TestStream(1)) == 0.0  # type: ignore[union-attr]
    line = Candidates(search._model, search._candidates(()).directions, plan.line_search.step_sizes(()))  # type: ignore[union-attr]
    whole = objectives(line, nn.CrossEntropyLoss(), as_private(blobs()), BOUND, 24)
    assert plan.line_search is not None
    assert seen[0] == pytest.approx(-plan.line_search.epsilon / wider * (whole / FULL_SCORE), rel=1e-6)


def test_a_choice_is_made_by_its_own_receipt_only() -> None:
    plan = agd()
    search = searching(plan, "exact")
    for event in (Gaussian(1.0), BoundedRange(0.1)):
        with pytest.raises(PrivacyViolation, match="not for the choice of a step size"):
            search.choose((), Receipt("r", 0, 0, event), TestStream(1))
