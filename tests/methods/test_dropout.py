"""DP dropout: its update, the rates that are read off, and what the paper's accounts are worth."""

from __future__ import annotations

import math
from pathlib import Path

import dropout_sigmas
import numpy as np
import pytest
import torch
from handed_over import steps_seen
from problems import blobs, linear, tiny_plan, tiny_training
from torch import nn

from discreet import Adjacency, Gaussian, InputError, NotProved, Poisson, Repeat, guarantee
from discreet.accounting import Compose, Method, Published
from discreet.accounting.account import account
from discreet.accounting.answers.compare import compare
from discreet.accounting.theories import paper_figures
from discreet.core.events import FixedSize
from discreet.methods import DPDropout


def test_a_run_is_the_formula_over_its_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 1 with the prior's gradient: theta - eta_t/2 (w theta + g), eta_t = lr / t^decay."""
    model, seen = linear().double(), steps_seen(monkeypatch)
    theta = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    inputs, targets = blobs()
    optimizer = DPDropout(model.parameters(), lr=0.8, decay=0.6, weight_decay=0.1)
    tiny_training(tmp_path, model=model, optimizer=optimizer, data=(inputs.double(), targets)).run()
    for t, mean in enumerate((one.means for one in seen), 1):
        for name in theta:
            theta[name] = theta[name] - 0.8 / t**0.6 / 2 * (0.1 * theta[name] + mean[name])
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), theta[name], rtol=1e-12, atol=1e-14)


def test_the_rates_are_the_noise_on_each_weight_over_its_square(tmp_path: Path) -> None:
    """std on theta = eta_7/2 x multiplier x C / batch, from the plan; the float slack is at most a thousandth."""
    model = linear().double()
    inputs, targets = blobs()
    optimizer = DPDropout(model.parameters(), lr=0.8, decay=0.5)
    assert all(float(rate.sum()) == 0 for rate in optimizer.rates().values())
    plan = tiny_plan(clip_norm=0.7)
    tiny_training(tmp_path, plan=plan, model=model, optimizer=optimizer, data=(inputs.double(), targets)).run()
    std = 0.8 / math.sqrt(7) / 2 * 1.5 * 0.7 / 12
    rates = optimizer.rates()
    assert set(rates) == set(model.parameters())
    for parameter, rate in rates.items():
        torch.testing.assert_close(rate, std**2 / parameter.detach().square(), rtol=2.1e-3, atol=0.0)


def test_multiplying_by_the_dropout_noise_is_adding_the_noise_of_the_mechanism() -> None:
    """xi theta with xi of mean 1 and variance alpha has the law of theta - eta/2 g for g pure noise: same mean, same
    variance. 200,000 draws; 5 standard errors. Weights of both signs, and scales that differ between coordinates."""
    draws, scales = 200_000, torch.tensor([1.0, 3.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(4)
    start = torch.tensor([0.5, -2.0], dtype=torch.float64).repeat(draws, 1)
    theta = nn.Parameter(start.clone())
    optimizer = DPDropout([theta], lr=0.4)
    theta.grad = 1.5 * scales * torch.randn(draws, 2, generator=generator, dtype=torch.float64)
    optimizer.tell(1.5, {theta: scales.expand(draws, 2)})
    optimizer.step()
    found = theta.detach().clone()
    with torch.no_grad():
        theta.copy_(start)
    alpha = optimizer.rates()[theta][0]
    torch.testing.assert_close(alpha, (0.2 * 1.5 * scales / start[0]) ** 2)
    dropped = start[0] * (1 + alpha.sqrt() * torch.randn(draws, 2, generator=generator, dtype=torch.float64))
    for each in (found, dropped):
        std = 0.3 * scales
        assert ((each.mean(0) - start[0]).abs() < 5 * std / math.sqrt(draws)).all()
        assert ((each.var(0) / std**2 - 1).abs() < 5 * math.sqrt(2 / draws)).all()


def test_a_weight_of_zero_has_an_infinite_rate() -> None:
    parameter = nn.Parameter(torch.tensor([0.0, 1.0]))
    parameter.grad = torch.zeros(2)
    optimizer = DPDropout([parameter], lr=2.0)
    optimizer.tell(0.5)
    optimizer.step()
    assert optimizer.rates()[parameter].tolist() == [math.inf, 0.25]


def test_a_scheduler_multiplies_the_step_size() -> None:
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = DPDropout([parameter], lr=2.0, decay=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for _ in range(3):
        parameter.grad = torch.ones(1, dtype=torch.float64)
        optimizer.tell(1.0)
        optimizer.step()
        scheduler.step()
    assert float(parameter.detach()) == pytest.approx(-(1 + 0.5 / 2 + 0.25 / 3), rel=1e-12)


@pytest.mark.parametrize("name", ["lr", "decay", "weight_decay"])
@pytest.mark.parametrize("value", [-1.0, math.nan, "1"])
def test_bad_options_are_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        DPDropout([nn.Parameter(torch.zeros(1))], **{name: value})  # type: ignore[arg-type]


MNIST = Repeat(Poisson(0.01, Gaussian(2 * 3.23)), 20_000)  # noise 2 C sigma on what one unit moves by C
MNIST_AC = Repeat(Poisson(0.01, Gaussian(2 * 10.88)), 20_000)


def test_the_claim_of_one_half_is_not_met() -> None:
    """The paper's epsilon = 0.5 (sigma 3.23, zCDP) is 0.67 in truth, and 1.5 if the noise is taken as C sigma: figures
    of dp-accounting 0.6.0, privacy-loss distribution at a grid of 5e-5, delta = 1e-4."""
    claimed = account(MNIST, 1e-4, method=Method.DROPOUT_ZCDP)
    assert isinstance(claimed, Published)
    assert claimed.epsilon < 0.5
    assert account(MNIST, 1e-6, method=Method.DROPOUT_ZCDP).epsilon == pytest.approx(0.5, abs=0.001)
    truth = guarantee(MNIST, 1e-4)
    assert truth.epsilon == pytest.approx(0.67167, rel=0.003)
    assert truth.lower is not None
    assert truth.lower > 0.67
    literal = guarantee(Repeat(Poisson(0.01, Gaussian(3.23)), 20_000), 1e-4)
    assert literal.epsilon == pytest.approx(1.50509, rel=0.003)


def test_the_claim_by_advanced_composition_counts_passes() -> None:
    """sigma = 10.88 for epsilon 0.5: 0.34 at the best split of delta by their formula, four times as much by advanced
    composition of the 20,000 steps. So much noise keeps the promise all the same, by another proof."""
    claimed = account(MNIST_AC, 1e-4, method=Method.DROPOUT_AC)
    assert isinstance(claimed, Published)
    assert 0.3 < claimed.epsilon < 0.5
    assert account(MNIST_AC, 1e-4, method=Method.ADVANCED).epsilon > 3 * claimed.epsilon
    assert guarantee(MNIST_AC, 1e-4).epsilon < claimed.epsilon


def test_the_published_figures_stand_beside_the_certified() -> None:
    rows = {
        row.method: row for row in compare(MNIST, 1e-4, methods=(Method.PLD, Method.DROPOUT_AC, Method.DROPOUT_ZCDP))
    }
    assert rows[Method.PLD].kind == "guarantee"
    assert {rows[method].kind for method in (Method.DROPOUT_AC, Method.DROPOUT_ZCDP)} == {"as_published"}
    assert "passes" in rows[Method.DROPOUT_AC].why
    assert "no theorem" in rows[Method.DROPOUT_ZCDP].why


@pytest.mark.parametrize("sigma", [0.5, 3.23, 40.0])
def test_it_is_the_inverse_of_the_papers_way_to_sigma(sigma: float) -> None:
    epsilon = paper_figures.dropout_zcdp([(0.01, sigma, 20_000)], 1e-5)
    assert dropout_sigmas.by_zcdp(epsilon, 200, 0.01, 1e-5, 1e-5) == pytest.approx(sigma, rel=1e-9)
    best = paper_figures.dropout_ac([(0.01, sigma, 20_000)], 1e-5)
    shares = [k / 50 for k in range(1, 50)]
    assert best <= min(paper_figures.dropout_advanced(sigma, 200, 0.01, 1e-5, share) for share in shares) * 1.01


@pytest.mark.parametrize(
    ("sigma", "delta", "method", "printed", "certified", "literal"),
    [
        (3.23, 1e-4, Method.DROPOUT_ZCDP, 0.32, 0.67, 1.51),
        (3.23, 1e-6, Method.DROPOUT_ZCDP, 0.50, 0.93, 2.01),
        (10.88, 1e-4, Method.DROPOUT_AC, 0.34, 0.17, 0.37),
    ],
)
def test_the_table_of_the_page(
    sigma: float, delta: float, method: Method, printed: float, certified: float, literal: float
) -> None:
    """docs/methods/dropout.md, published against certified."""
    twice, once = (Repeat(Poisson(0.01, Gaussian(factor * sigma)), 20_000) for factor in (2, 1))
    assert round(account(twice, delta, method=method).epsilon, 2) == printed
    assert round(guarantee(twice, delta).epsilon, 2) == certified
    assert round(guarantee(once, delta).epsilon, 2) == literal
    row = f"| {delta:.0e} | {printed:.2f} | **{certified:.2f}** | {literal:.2f} |".replace("e-0", "e-")
    assert row in (Path(__file__).parents[2] / "docs" / "methods" / "dropout.md").read_text()


@pytest.mark.parametrize("method", [Method.DROPOUT_AC, Method.DROPOUT_ZCDP])
def test_what_the_paper_says_nothing_about_is_refused(method: Method) -> None:
    with pytest.raises(NotProved, match="one noise level"):
        account(Compose((Poisson(0.1, Gaussian(1.0)), Poisson(0.1, Gaussian(2.0)))), 1e-5, method=method)
    with pytest.raises(NotProved, match="without sampling"):
        account(Repeat(Gaussian(5.0), 10), 1e-5, method=method)


@pytest.mark.parametrize("method", [Method.DROPOUT_AC, Method.DROPOUT_ZCDP])
def test_their_sigma_is_noise_over_what_a_replaced_unit_moves(method: Method) -> None:
    """So that it is the same number whichever adjacency the plan is stated under."""
    fixed = account(FixedSize(100, 10, Gaussian(8.0)), 1e-5, Adjacency.REPLACE_ONE, method)
    assert fixed.epsilon == pytest.approx(account(Poisson(0.1, Gaussian(8.0)), 1e-5, method=method).epsilon)
