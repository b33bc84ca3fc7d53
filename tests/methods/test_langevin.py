"""SGLD: that its noise is the mechanism's and nothing else, what it samples, and which plans it refuses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from problems import FEATURES, blobs, tiny_plan, tiny_training
from scipy import stats
from torch import nn

from discreet import InputError, guarantee
from discreet.accounting import schedules
from discreet.accounting.theories import gdp
from discreet.core.release import Release
from discreet.methods import SGLD, LangevinSteps, Several
from discreet.plan import Metric, NoSampling, Plan, mean_noise, mean_noises
from discreet.training import step as step_module
from discreet.training.preflight.plan_check import check_optimizer

STEPS = LangevinSteps(first=0.02, decay=0.6)
RATE, POPULATION = 0.5, 24


def langevin_plan(steps: LangevinSteps = STEPS, **changes: Any) -> Plan:
    """A tiny plan whose noise is that of the sampler."""
    noise = steps.noise(7, rate=RATE, clip_norm=1.0, temperature=changes.pop("temperature", 1.0))
    return tiny_plan(noise_multiplier=noise, **changes)


def wide(outputs: int = 1000) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(FEATURES, outputs).double()


def double_blobs() -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = blobs()
    return inputs.double(), targets


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_the_noise_of_the_plan_is_that_of_langevin(temperature: float) -> None:
    """The definition: eta/2 x N x (multiplier C / (q N)) = sqrt(temperature eta), each number by itself."""
    for clip_norm, rate in ((1.0, 0.5), (0.3, 0.01)):
        for t, (multiplier, count) in enumerate(
            STEPS.noise(9, rate=rate, clip_norm=clip_norm, temperature=temperature), 1
        ):
            eta = 0.02 / t**0.6
            std = multiplier * clip_norm / (rate * POPULATION)
            assert count == 1
            assert eta / 2 * POPULATION * std == pytest.approx(math.sqrt(temperature * eta), rel=1e-12)


def test_stretches_have_the_size_of_their_first_step() -> None:
    steps = LangevinSteps(first=0.5, decay=1.0, every=3)
    assert [steps.at(t) for t in range(1, 8)] == pytest.approx([0.5] * 3 + [0.5 / 4] * 3 + [0.5 / 7])
    assert [count for _, count in steps.noise(7, rate=0.1, clip_norm=1.0)] == [3, 3, 1]
    assert LangevinSteps(first=0.5, decay=0.0).noise(7, rate=0.1, clip_norm=1.0) == [
        (pytest.approx(0.2 / math.sqrt(0.5)), 7)
    ]


def test_privacy_is_read_off() -> None:
    """Without sampling and with eta_0 / t, all steps are one Gaussian of mu^2 = C^2 eta_0 / 4 x (1 + 1/2 + ... + 1/T):
    sum of 1 / multiplier^2. The harmonic number and the analytic Gaussian are mpmath's."""
    first, clip_norm, steps, delta = 0.3, 0.7, 200, 1e-5
    noise = LangevinSteps(first=first).noise(steps, rate=1.0, clip_norm=clip_norm)
    plan = Plan.make(NoSampling(), population=50, steps=steps, clip_norm=clip_norm, delta=delta, noise_multiplier=noise)
    mu = mpmath.sqrt(mpmath.mpf(clip_norm) ** 2 * first / 4 * mpmath.harmonic(steps))

    epsilon = guarantee(plan.event(), delta).epsilon
    found = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    assert float(found) == pytest.approx(delta, rel=1e-8)
    assert gdp.compose_mu(noise) == pytest.approx(float(mu), rel=1e-12)


def test_a_power_schedule_is_the_same_noise() -> None:
    """What recipes say: sigma_1 = 2 q / (C sqrt(eta_1)), rate = decay / 2."""
    for every in (1, 3):
        wanted = LangevinSteps(0.02, 0.6, every).noise(9, rate=RATE, clip_norm=1.0)
        text = f"power:initial={2 * RATE / math.sqrt(0.02)!r},rate=0.3,per=step,every={every}"
        found = schedules.parse(text).phases(9, RATE)
        assert [count for _, count in found] == [count for _, count in wanted]
        assert [noise for noise, _ in found] == pytest.approx([noise for noise, _ in wanted], rel=1e-12)
    with pytest.raises(InputError, match="at most 10"):
        schedules.parse("power:initial=1,rate=11")
    with pytest.raises(InputError, match="no rate to find"):
        schedules.solve_rate(schedules.parse("power:initial=1"), lambda *_: True, 5)


def test_a_run_is_the_formula_over_its_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """theta - eta/2 (precision theta + N g) with the released means and the noise that was told, and no noise of its
    own; a group has its own prior."""
    model, seen = wide(3), []
    real = step_module.apply

    def spy(release: Release, parameters: Any, optimizer: Any, divisor: float, *rest: Any) -> None:
        seen.append(({n: np.array(t) / divisor for n, t in release.tensors.items()}, optimizer._told[0]))
        real(release, parameters, optimizer, divisor, *rest)

    monkeypatch.setattr(step_module, "apply", spy)
    theta = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    optimizer = SGLD([{"params": [model.weight], "precision": 5.0}, {"params": [model.bias]}], POPULATION, steps=STEPS)
    tiny_training(tmp_path, plan=langevin_plan(), model=model, optimizer=optimizer, data=double_blobs()).run()
    for t, (mean, std) in enumerate(seen, 1):
        eta = 4 / (POPULATION * std) ** 2
        assert eta == pytest.approx(STEPS.at(t), rel=3e-3)
        for name, precision in (("weight", 5.0), ("bias", 1.0)):
            theta[name] = theta[name] - eta / 2 * (precision * theta[name] + POPULATION * mean[name])
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), theta[name], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_what_arrives_is_the_noise_that_langevin_needs(
    temperature: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients of zero: each step moves theta by noise of variance temperature x eta, by a chi-squared test of 35,000
    values; alarms once in 10^9 for another seed. A sampler at half or twice the temperature is caught."""
    model = wide()
    plan = langevin_plan(temperature=temperature)
    optimizer = SGLD(model.parameters(), POPULATION, precision=0.0, temperature=temperature, steps=STEPS)
    before, total, count = [torch.cat([p.detach().flatten() for p in model.parameters()])], 0.0, 0
    real = step_module.apply

    def spy(*args: Any) -> None:
        real(*args)
        before.append(torch.cat([p.detach().flatten() for p in model.parameters()]))

    monkeypatch.setattr(step_module, "apply", spy)
    tiny_training(
        tmp_path,
        plan=plan,
        model=model,
        optimizer=optimizer,
        data=double_blobs(),
        criterion=lambda output, _: 0.0 * output.sum(),
    ).run()
    for t in range(1, 8):
        moved = before[t] - before[t - 1]
        total += float(moved.square().sum()) / (temperature * STEPS.at(t))
        count += moved.numel()
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], count)
    low *= 1 - 2e-3  # the float slack makes eta smaller than declared by at most two thousandths
    assert low < total < high
    assert not low < 0.5 * total < high
    assert not low < 2 * total < high


def test_it_samples_the_posterior() -> None:
    """N observations of a Gaussian with unit variance and mean xbar, prior of precision 4: theta is normal with mean
    N xbar / (N + 4), and, at a constant step, variance 1 / (a (1 - eta a / 4)), a = N + 4: an autoregression in closed
    form. 20,000 chains; 5 standard errors (once in a million for another seed)."""
    chains, population, centre, precision, eta = 20_000, 50.0, 0.8, 4.0, 0.01
    generator = torch.Generator().manual_seed(2)
    theta = nn.Parameter(torch.zeros(chains, dtype=torch.float64))
    sampler = SGLD([theta], population, precision=precision)
    std = 2 / (population * math.sqrt(eta))
    for _ in range(60):
        noise = torch.randn(chains, generator=generator, dtype=torch.float64)
        theta.grad = (theta.detach() - centre) + std * noise
        sampler.tell(std)
        sampler.step()
    a = population + precision
    variance = 1 / (a * (1 - eta * a / 4))
    found = theta.detach()
    assert float(found.mean()) == pytest.approx(population * centre / a, abs=5 * math.sqrt(variance / chains))
    assert float(found.var()) == pytest.approx(variance, rel=5 * math.sqrt(2 / chains))
    assert abs(1 / a / variance - 1) > 5 * math.sqrt(2 / chains)  # the step is long enough to tell the two apart


WRONG: dict[str, tuple[Plan, dict[str, Any]]] = {
    "constant noise": (tiny_plan(noise_multiplier=[(m, 1) for m in [2 * RATE / math.sqrt(0.02)] * 7]), {}),
    "calibrated": (langevin_plan().scaled(1.5), {}),
    "another clip norm": (langevin_plan(clip_norm=0.5), {}),
    "another population": (langevin_plan(), {"population": 30}),
    "another temperature": (langevin_plan(), {"temperature": 0.5}),
    "scheduled clipping": (
        langevin_plan(
            clip_norm=None,
            clipping={"kind": "scheduled", "phases": [{"norm": 1.0, "steps": 3}, {"norm": 0.5, "steps": 4}]},
        ),
        {},
    ),
}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_a_plan_with_other_noise_is_refused_before_it_is_charged(name: str, several: bool, tmp_path: Path) -> None:
    plan, changes = WRONG[name]
    model = wide(3)
    optimizer: Any = SGLD(model.parameters(), **({"population": POPULATION, "steps": STEPS} | changes))
    with pytest.raises(InputError, match="the declared one is"):
        tiny_training(
            tmp_path,
            plan=plan,
            model=model,
            optimizer=Several(optimizer) if several else optimizer,
            data=double_blobs(),
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("within", [0, 1, 2])
def test_another_population_than_the_plans_is_refused_before_it_is_charged(within: int, tmp_path: Path) -> None:
    """Without declared steps too. Where rows are held out, all units or those trained on are both the plan's."""
    model, counted = wide(3), Metric(kind="accuracy", noise=5.0, rows="holdout")
    held_out = langevin_plan(holdout=0.1, metrics=[counted])  # whose population is that of the rows to train on

    def check(population: float, plan: Plan) -> None:
        optimizer: torch.optim.Optimizer = SGLD(model.parameters(), population)
        for _ in range(within):
            optimizer = Several(optimizer)
        check_optimizer(optimizer, plan)

    for wrong in (2.4, 21.6, 240.0):
        with pytest.raises(InputError, match=f"SGLD: population is {wrong:g} and the plan's is 24, so"):
            check(wrong, langevin_plan())
    with pytest.raises(InputError, match=r"is 30 and the plan's is 21\.6, so .*; give SGLD population=21\.6"):
        check(30, held_out)
    for plan, right in ((langevin_plan(), POPULATION), (held_out, POPULATION), (held_out, 21.6)):
        check(right, plan)
    optimizer = SGLD(model.parameters(), 240)
    with pytest.raises(InputError, match="SGLD: population is 240"):
        tiny_training(tmp_path, plan=langevin_plan(), model=model, optimizer=optimizer, data=double_blobs())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("norm", [1.0, 0.5])
def test_where_the_noise_follows_from_the_model_the_first_step_tells(norm: float, tmp_path: Path) -> None:
    """One norm for each layer: the noise is known when the layers are; a wrong one ends the run in its first step."""
    model = wide(3)
    plan = langevin_plan(clip_norm=None, clipping={"per_layer": norm})
    optimizer = SGLD(model.parameters(), POPULATION, steps=STEPS)
    before = model.weight.detach().clone()
    training = tiny_training(tmp_path, plan=plan, model=model, optimizer=optimizer, data=double_blobs())
    if norm == 1.0:
        assert training.run().charged_steps == 7
        return
    with pytest.raises(InputError, match="the noise of step 1 "):
        training.run()
    assert torch.equal(model.weight, before)


def test_without_declared_steps_the_noise_decides(tmp_path: Path) -> None:
    """A calibrated plan: the step size is the one for which its noise is that of Langevin dynamics."""
    model = wide(3)
    plan = langevin_plan().calibrate(1.0)
    optimizer = SGLD(model.parameters(), POPULATION)
    tiny_training(tmp_path, plan=plan, model=model, optimizer=optimizer, data=double_blobs()).run()
    assert optimizer.state[model.weight]["step"] == 7
    assert optimizer.step_size(mean_noise(plan, 0)) == pytest.approx(
        4 / (POPULATION * plan.noise[0].multiplier / 12) ** 2
    )
    assert mean_noises(plan) == [mean_noise(plan, step) for step in range(7)]


def test_steps_that_were_lost_leave_a_gap() -> None:
    steps = LangevinSteps(first=1.0, decay=1.0)
    assert steps.time_of(1 / 3, after=2) == 3
    assert steps.time_of(1 / 7, after=2) == 7
    assert steps.time_of(1.001, after=0) == 1
    with pytest.raises(InputError, match="noise of step 3"):
        steps.time_of(1.0, after=2)
    with pytest.raises(InputError, match="noise of step 1 "):
        LangevinSteps(first=1.0, decay=1e-6).time_of(1e-300, after=0)
    with pytest.raises(InputError, match="noise of step 1 "):
        LangevinSteps(first=1.0, decay=20.0).time_of(1e300, after=0)
    assert LangevinSteps(first=1.0, decay=0.0).time_of(1.0, after=4) == 5
    assert LangevinSteps(first=1.0, every=5).time_of(1.0, after=3) == 4


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda p: SGLD(p, 0), "population"),
        (lambda p: SGLD(p, 10, precision=-1), "precision"),
        (lambda p: SGLD(p, 10, temperature=math.nan), "temperature"),
        (lambda p: SGLD(p, 10, steps={"first": -1.0}), "first"),
        (lambda p: SGLD(p, 10).step(lambda: 0.0), "closure"),
        (lambda p: LangevinSteps(1.0, every=0), "every"),
        (lambda p: LangevinSteps(1.0, decay=21.0), "decay"),
        (lambda p: LangevinSteps(1.0).noise(3, rate=0.0, clip_norm=1.0), "rate"),
    ],
)
def test_mistakes_are_named(make: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        make([nn.Parameter(torch.zeros(2))])


def test_noise_that_is_none_or_differs_between_coordinates_is_refused() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    optimizer = SGLD([parameter], 10)
    with pytest.raises(InputError, match="not told"):
        optimizer.step()
    optimizer.tell(0.0)
    with pytest.raises(InputError, match="needs noise"):
        optimizer.step()
    optimizer.tell(1.0, {parameter: torch.ones(2)})
    with pytest.raises(InputError, match="every coordinate"):
        optimizer.step()
    assert torch.equal(parameter.detach(), torch.ones(2))
