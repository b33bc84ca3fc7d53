"""Metrics on private rows that are bought: what they measure, what one row moves, and what is charged."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from metric_plans import adaptive, unsampled
from problems import blobs, linear, tiny_plan, tiny_training
from scipy import stats
from sessions import LOSS
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.core.events import Gaussian, Poisson
from discreet.core.release import ClippedSum, Receipt
from discreet.data import Parts, PrivateData, as_private, group
from discreet.plan import (
    Metric,
    Plan,
)
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.training.private_metrics import noisy_metrics as metrics_module
from discreet.training.private_metrics.noisy_metrics import PrivateMetrics
from discreet.training.run.trained import Bought

ACCURACY = Metric(noise=1e-3)
CLIPPED = Metric(kind="loss", noise=1e-3, bound=0.75)


def shop(
    data: PrivateData, plan: Plan | None = None, model: nn.Module | None = None
) -> tuple[PrivateMetrics, list[Bought]]:
    """PrivateMetrics on `data`, and the list that they are noted in."""
    noted: list[Bought] = []
    made = PrivateMetrics(
        plan or tiny_plan(), model or linear(), LOSS, Parts(data), NOISE_SAMPLERS["exact"], noted.append
    )
    return made, noted


def buy(metric: Metric, data: PrivateData, position: int = 0, **more: Any) -> float:
    found, _ = shop(data, **more)
    return found.buy(metric, Receipt("run", 0, position, metric.event), TestStream(3))


def test_they_are_the_metrics_of_the_model() -> None:
    """With next to no noise, and as many rows as declared: what plain PyTorch says."""
    inputs, targets = blobs()
    with torch.no_grad():
        output = linear()(inputs)
    right = (output.argmax(1) == targets).double().mean()
    losses = F.cross_entropy(output, targets, reduction="none").clamp(max=0.75).double().mean()
    assert 0.1 < float(right) < 0.9
    assert float((F.cross_entropy(output, targets, reduction="none") > 0.75).double().mean()) > 0.2
    assert buy(ACCURACY, as_private((inputs, targets))) == pytest.approx(float(right), abs=1e-3)
    assert buy(CLIPPED, as_private((inputs, targets))) == pytest.approx(float(losses), abs=1e-3)


def test_the_divisor_is_declared_and_never_counted() -> None:
    """Eighteen rows where 24 are declared: the centred sum is divided by 24."""
    inputs, targets = blobs(18)
    right = int((linear()(inputs).argmax(1) == targets).sum())
    assert buy(ACCURACY, as_private((inputs, targets))) == pytest.approx(0.5 + (right - 9) / 24, abs=1e-3)


def test_a_users_rows_count_by_their_mean() -> None:
    inputs, targets = blobs(12)
    owners = [0] * 6 + [1] * 3 + [2, 2, 3]
    data = PrivateData(as_private((inputs, targets)).dataset, group(owners, 12))
    plan = tiny_plan(population=4, batch=2, unit="user", rows_per_unit=2)
    right = (linear()(inputs).argmax(1) == targets).double()
    means = [float(right[[i for i in range(12) if owners[i] == user]].mean()) for user in range(4)]
    assert buy(ACCURACY, data, plan=plan) == pytest.approx(sum(means) / 4, abs=2e-3)


def test_only_some_rows_are_looked_at() -> None:
    """At rate 1/2 the divisor is half of what is declared, and the draw is the receipt's own."""
    metric = Metric(noise=1e-3, rate=0.5)
    assert metric.event == Poisson(0.5, Gaussian(1e-3, "centred_bit"))  # type: ignore[arg-type]
    inputs, targets = blobs()
    right = (linear()(inputs).argmax(1) == targets).double() - 0.5
    found = set()
    for position in range(6):
        (rows,) = metric.sampler.batches(position, 24, TestStream(3))
        expected = 0.5 + float(right[rows].sum()) / 12
        assert buy(metric, as_private((inputs, targets)), position) == pytest.approx(expected, abs=1e-3)
        found.add(tuple(rows))
    assert len(found) == 6


class Odd(nn.Module):
    """Outputs that are given by the input: whatever a row wants to say."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


ROWS = torch.tensor(
    [[9.0, 0.0], [0.0, 9.0], [0.1, 0.2], [math.nan, 0.0], [math.inf, 0.0], [-math.inf, 0.0], [0.0, 0.0], [1e30, 0.0]]
)
TARGETS = torch.tensor([0, 0, 1, 0, 1, 0, 1, 1])


@pytest.mark.parametrize("metric", [Metric(noise=3.3), Metric(kind="loss", noise=0.7, bound=1.3)])
def test_no_row_moves_the_sum_by_more_than_is_paid_for(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed: half the range. Replaced: all of it. In rational arithmetic, NaN and infinity included."""
    sums: list[ClippedSum] = []
    real = metrics_module.gaussian_release

    def keep(total: ClippedSum, *rest: Any) -> Any:
        sums.append(total)
        return real(total, *rest)

    monkeypatch.setattr(metrics_module, "gaussian_release", keep)

    def total(rows: list[int]) -> Fraction:
        buy(metric, as_private((ROWS[rows], TARGETS[rows])), model=Odd())
        value = Fraction(float(sums[-1].tensors["metric"][0]))
        assert (value / Fraction(sums[-1].grid)).denominator == 1
        return value

    whole = total(list(range(8)))
    paid = Fraction(metric.contribution)
    assert Fraction(sums[-1].sensitivity) == paid == Fraction(metric.range) / 2
    alone = [whole - total([i for i in range(8) if i != row]) for row in range(8)]
    assert max(map(abs, alone)) <= paid
    assert max(alone) - min(alone) <= 2 * paid
    assert max(alone) > Fraction(99, 100) * paid
    assert min(alone) < -Fraction(99, 100) * paid


def test_the_noise_has_the_scale_that_is_stated() -> None:
    """Chi-square test on 400 purchases; false alarm 1e-9, were the seed not fixed."""
    metric, data = Metric(noise=5.0), as_private(blobs(6))
    found, noted = shop(data, tiny_plan(population=6, batch=3))
    stream = TestStream(1)
    exact = buy(ACCURACY, data, plan=tiny_plan(population=6, batch=3))
    for position in range(400):
        found.buy(metric, Receipt("run", 0, position, metric.event), stream)
    stated = noted[0].deviation
    assert stated == pytest.approx(5.0 * 0.5 / 6)
    statistic = sum(((one.value - exact) / stated) ** 2 for one in noted)
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], 400)
    assert low < statistic < high


def test_the_stated_deviation_covers_how_many_happen_to_be_held_out() -> None:
    """Noise and the size of the holdout, drawn 4,000 times; relative error of a deviation about 1 %, allowed 6 %."""
    generator = np.random.Generator(np.random.PCG64(0))
    metric, share, whole, accuracy = Metric(noise=4.0, rows="holdout"), 0.2, 500, 1.0
    units = share * whole
    held = generator.binomial(whole, share, 4000)
    noisy = [(accuracy - 0.5) * n + 2.0 * generator.normal() for n in held]
    values = [metric.value(total, units) for total in noisy]
    assert np.std(values) == pytest.approx(metric.deviation(units, share), rel=0.06)
    assert np.mean(values) == pytest.approx(accuracy, abs=0.01)
    size = Metric(kind="size", noise=4.0, rows="holdout")
    divided = [metric.value(total, n + 4.0 * generator.normal()) for total, n in zip(noisy, held, strict=True)]
    assert np.std(divided) == pytest.approx(metric.deviation(units, share, size), rel=0.06)
    assert np.mean(divided) == pytest.approx(accuracy, abs=0.01)


def test_a_noisy_size_divides_where_it_is_bought(tmp_path: Path) -> None:
    """Eighteen rows where 24 are declared; the size is bought once, before the first accuracy."""
    metrics = [Metric(noise=1e-3, every=2), Metric(kind="size", noise=1e-3)]
    plan = unsampled(steps=4, metrics=metrics)
    trained = tiny_training(tmp_path, plan=plan, data=blobs(18)).run()
    assert [(one.step, one.metric) for one in trained.bought] == [
        (3, "training_size"),
        (4, "training_accuracy"),
        (7, "training_accuracy"),
    ]
    size, _, last = trained.bought
    assert size.value == pytest.approx(18, abs=0.01)
    assert size.deviation == 1e-3
    right = int((trained.model(blobs(18)[0]).argmax(1) == blobs(18)[1]).sum())
    assert last.value == pytest.approx(right / 18, abs=1e-3)
    assert last.deviation == pytest.approx(0.5 * math.sqrt(2) * 1e-3 / 24)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Metric(kind="loss", noise=1.0), "bound"),
        (lambda: Metric(noise=1.0, bound=1.0), "bound"),
        (lambda: Metric(noise=0.0), "greater than 0"),
        (lambda: Metric(noise=math.inf), "finite"),
        (lambda: tiny_plan(metrics=[Metric(noise=1.0), Metric(noise=2.0)]), "twice"),
        (lambda: tiny_plan(metrics=[Metric(noise=1.0, rows="holdout")]), "none are held out"),
        (lambda: tiny_plan(holdout=0.3), "for nothing"),
        (lambda: tiny_plan(metrics=[Metric(kind="size", noise=3.0)]), "for nothing"),
        (lambda: Metric(kind="size", noise=3.0, every=2), "bought once"),
        (lambda: tiny_plan(holdout=1.0), "less than 1"),
        (lambda: adaptive(metrics=[Metric(noise=1.0, every=3)]), "after each phase"),
        (lambda: tiny_plan(metrics=[Metric(noise=1.0, every=1)]).calibrate(1.0), "the metrics alone cost"),
        (
            lambda: tiny_plan(metrics=[Metric(noise=1.0, every=1, rows="holdout")], holdout=0.5).calibrate(1.0),
            "the metrics alone cost",
        ),
    ],
)
def test_what_cannot_be_bought(make: Callable[[], Any], says: str) -> None:
    with pytest.raises((InputError, ValueError), match=says):
        make()


def test_metrics_that_the_data_or_the_criterion_does_not_have(tmp_path: Path) -> None:
    inputs, _ = blobs()
    regression = {"data": (inputs, inputs[:, :1]), "model": nn.Linear(4, 1), "criterion": nn.MSELoss()}
    with pytest.raises(InputError, match="need one class per row"):
        tiny_training(tmp_path, plan=tiny_plan(metrics=[Metric(noise=5.0)]), **regression)
    many = tiny_plan(metrics=[Metric(kind="loss", noise=5.0, bound=1.0)])
    trained = tiny_training(tmp_path, plan=many, **regression).run()
    assert len(trained.bought) == 1
    two = regression | {"data": (inputs, inputs[:, :2]), "model": nn.Linear(4, 2)}
    with pytest.raises(InputError, match="must be one number per row"):
        tiny_training(tmp_path / "two", plan=many, **two | {"criterion": nn.MSELoss(reduction="none")})
    with pytest.raises(InputError, match="too large for so little noise"):
        tiny_training(tmp_path / "b", plan=tiny_plan(metrics=[Metric(noise=1e-7)]))
