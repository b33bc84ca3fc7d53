"""Membership attacks: their scores from other formulas, their rates by counting, and what they find of a known leak."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from discreet.audit.membership.attack_rates import LOOK, RATES, Attack, measured
from discreet.audit.membership.row_signals import confidence, halves, lira_scores, loss_scores, rmia_scores
from discreet.audit.membership.shadow_models import Trainer, shadow_losses
from discreet.audit.row_losses import losses_of
from discreet.plan import Plan

RNG = np.random.default_rng(0)


def test_confidence_is_the_logit_of_the_likelihood() -> None:
    p = np.array([0.999, 0.5, 1e-6])
    assert confidence(-np.log(p)) == pytest.approx(np.log(p / (1 - p)), rel=1e-9)
    assert np.isfinite(confidence(np.array([0.0, 1e9, np.nan, np.inf]))).all()


def test_losses_that_are_no_numbers_are_the_least_suspicious() -> None:
    assert loss_scores(np.array([1.0, np.nan, 0.5])).argsort().tolist() == [1, 0, 2]


def test_lira_is_a_ratio_of_normal_densities() -> None:
    """With the means of each row and the pooled spreads, from scipy's density."""
    models, rows = 8, 5
    trained, shadows, losses = halves(models, rows, RNG), RNG.exponential(1, (models, rows)), RNG.exponential(1, rows)
    seen, others = confidence(losses), confidence(shadows)
    exact = np.zeros(rows)
    for chosen, sign in ((trained, 1), (~trained, -1)):
        parts = [others[chosen[:, row], row] for row in range(rows)]
        spread = np.sqrt(sum(part.var() * len(part) for part in parts) / sum(len(part) - 1 for part in parts))
        exact += sign * np.array([norm.logpdf(s, part.mean(), spread) for s, part in zip(seen, parts, strict=True)])
    assert lira_scores(losses, shadows, trained) == pytest.approx(exact, rel=1e-9)


def test_rmia_orders_rows_as_its_counts_do() -> None:
    """The share of other rows whose ratio is at most that of a row, gamma = 1, as the paper counts it."""
    shadows, losses = RNG.exponential(1, (6, 40)), RNG.exponential(1, 40)
    ratios = np.exp(-losses) / np.exp(-shadows).mean(axis=0)
    counted = np.array([(one >= ratios).mean() for one in ratios])
    found = rmia_scores(losses, shadows)
    assert found == pytest.approx(np.log(ratios))
    assert np.all(np.diff(counted[np.argsort(found)]) >= 0)


def test_each_row_is_in_half_of_the_shadow_models() -> None:
    found = halves(6, 100, RNG)
    assert (found.sum(axis=0) == 3).all()
    assert (halves(5, 10, RNG).sum(axis=0) == 2).all()


def test_rates_are_counts_above_a_threshold_of_the_others() -> None:
    attack = Attack("loss", np.array([9.0, 8, 7, 3, 2]), np.array([8.5, 6, 5, 4, 1, 0, 0, 0, 0, 0]))
    assert attack.counts_at(0.0) == (0, 1)
    assert attack.counts_at(0.1) == (1, 3)
    assert attack.counts_at(0.19) == (1, 3)
    assert attack.counts_at(1.0) == (10, 5)
    wrong, right = attack.curve()
    assert dict(zip(wrong.tolist(), right.tolist(), strict=True))[0.1] == 0.6
    assert (wrong[-1], right[-1]) == (1.0, 1.0)
    assert attack.accuracy() == pytest.approx(0.5 + 0.5 * 0.6)


def test_ties_with_the_threshold_are_no_hits() -> None:
    attack = Attack("loss", np.ones(5), np.ones(10))
    assert attack.counts_at(0.05) == (0, 0)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Members of one law and a threshold that is fixed by others: the interval of hits misses the true share in at most
    5 % of cases. Of 400, more than 33 would with probability 1e-3."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(400):
        others = rng.normal(size=1000)
        one = measured([Attack("loss", rng.normal(1, 1, 300), others)], lambda x: x, (0.05,))[0]
        truth = norm.sf(np.sort(others)[-51] - 1)
        missed += not one.low <= truth <= one.high
    assert 2 < missed <= 33


def test_what_exceeds_the_bound_by_far_is_said_and_chance_is_not() -> None:
    """A leak that tells members apart, against a bound of guessing. Of 300 attacks without any, 9 rates each, none is
    said to exceed it: that would happen with probability 1e-3 a case, at most."""
    rng = np.random.default_rng(2)
    leak = Attack("loss", rng.normal(2, 1, 1000), rng.normal(0, 1, 1000))
    found = measured([leak], lambda x: x)
    assert [one.rate for one in found] == list(RATES)
    assert all(one.beyond for one in found[1:])
    assert all(one.most == one.rate for one in found)
    assert not any(one.beyond for one in measured([leak], lambda _: 1.0))
    for _ in range(300):
        same = [Attack(name, rng.normal(size=500), rng.normal(size=500)) for name in ("loss", "LiRA", "RMIA")]
        assert not any(one.beyond for one in measured(same, lambda x: x))
    assert LOOK == 1e-3


def test_shadow_models_are_trained_on_their_rows_alone() -> None:
    """Next to no noise and many steps: rows with random classes have a lower loss in the models that saw them."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(60, 30), torch.randint(0, 2, (60,))
    plan = Plan.poisson(population=500, batch=500, steps=25, clip_norm=1.0, delta=1e-5, noise_multiplier=0.05)
    trainer = Trainer(
        plan,
        lambda: nn.Sequential(nn.Linear(30, 2)),
        nn.CrossEntropyLoss(),
        lambda built: torch.optim.SGD(built.parameters(), lr=2.0),
    )
    trained, told = halves(4, 60, np.random.default_rng(3)), []
    found = shadow_losses(trainer, inputs, targets, trained, nn.CrossEntropyLoss(), told.append)
    assert found.shape == (4, 60)
    assert told == [1, 2, 3, 4]
    assert found[trained].mean() < 0.7 * found[~trained].mean()


def test_losses_of_sure_rows_can_be_told_apart() -> None:
    model = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    losses = losses_of(model, torch.tensor([[12.0], [13.0]]), torch.zeros(2, dtype=torch.int64), nn.CrossEntropyLoss())
    assert losses == pytest.approx(np.log1p(np.exp([-24.0, -26.0])), rel=1e-6)
