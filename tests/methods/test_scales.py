"""ADADP, DPOPT and AdaClip: their formulas against sums written out, and what their scales keep."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet import InputError
from discreet.core.events import Gaussian
from discreet.core.release import Receipt, Release
from discreet.methods import ADADP, DPOPT, AdaClip, ReleasedScales, adadp, adal, adan
from discreet.methods.dpopt import least_harm, projected_gradient
from discreet.methods.released_scales import Rule, floored

RULES: list[Rule] = [ADADP(), ADADP(beta=1.0, floor=0.0), DPOPT(), DPOPT(power=-1.0), AdaClip()]
KINDS = ("ellipsoid", "box")


def model() -> nn.Module:
    return nn.Linear(4, 3)


def release_of(numbers: Tensor) -> Release:
    """A release for `model`, still divided by the scales, from 15 numbers."""
    tensors = {"weight": numbers[:12].view(3, 4).numpy(), "bias": numbers[12:].numpy()}
    return Release(tensors, Gaussian(1.0), Receipt("test", 0, 0, Gaussian(1.0)))


def flat(scales: Any) -> Tensor:
    return torch.cat([scales[name].reshape(-1) for name in ("weight", "bias")])


def fed(rule: Rule, kind: Any = "ellipsoid", steps: int = 6, seed: int = 0, size: float = 5.0) -> ReleasedScales:
    """After so many releases, of noise 2 and divisor 10."""
    generator = torch.Generator().manual_seed(seed)
    sizes = size * torch.exp(torch.randn(15, generator=generator, dtype=torch.float64))
    geometry = ReleasedScales(rule, model(), 3.0, kind)
    for _ in range(steps):
        geometry.update(release_of(sizes * torch.randn(15, generator=generator, dtype=torch.float64)), 2.0, 10.0)
    return geometry


def test_adadp_is_two_averages_one_of_squares_and_one_of_the_noise() -> None:
    """Written out as the paper would: E' of noisy means, the same average of (sigma_i / L)^2, the difference floored
    at half the standard deviation of what noise leaves in it (a square of noise has variance 2 v^2), scales beta
    sqrt(.) / its root mean square."""
    generator = torch.Generator().manual_seed(1)
    rule, decay, weights, variances = ADADP(beta=1.5, decay=0.8, floor=0.5), 0.8, [], []
    geometry = ReleasedScales(rule, model(), 1.0)
    square = noise_square = torch.zeros(15, dtype=torch.float64)
    for noise in (2.0, 2.0, 1.0, 0.5):
        scales = flat(geometry.scales()).clone()
        numbers = 4 * torch.randn(15, generator=generator, dtype=torch.float64)
        mean, deviation = numbers * scales / 10.0, noise * scales / 10.0
        geometry.update(release_of(numbers), noise, 10.0)
        square = decay * square + (1 - decay) * mean**2
        noise_square = decay * noise_square + (1 - decay) * deviation**2
        weights = [0.8 * one for one in weights] + [0.2]
        variances.append(float(deviation.square().mean()))
        error = math.sqrt(sum(2 * (w * v) ** 2 for w, v in zip(weights, variances, strict=True)))
        moments = (square - noise_square).clamp(min=0.5 * error)
        torch.testing.assert_close(flat(geometry.scales()), 1.5 * (moments / moments.mean()).sqrt(), rtol=1e-12, atol=0)


def test_what_is_seen_above_the_noise_gets_larger_scales() -> None:
    """One number in five has a signal, of half the deviation of the noise. Fixed seed; over 400 steps its average is
    more than 3 standard deviations above what noise leaves."""
    signal = torch.tensor([0.5 * (place % 5 == 0) for place in range(15)], dtype=torch.float64)
    geometry = ReleasedScales(ADADP(beta=1.0, decay=0.995), model(), 1.0)
    generator = torch.Generator().manual_seed(2)
    for _ in range(400):
        scales = flat(geometry.scales()).clone()
        mean = signal + scales * torch.randn(15, generator=generator, dtype=torch.float64)
        geometry.update(release_of(mean / scales), 1.0, 1.0)
    found = flat(geometry.scales())
    assert float(found[signal > 0].mean()) > 1.3 * float(found[signal == 0].mean())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_clip_norm_keeps_its_meaning(rule: Rule, kind: str) -> None:
    """Before anything is known the ellipsoid is flat clipping and the box its inside. After that, a gradient with the
    moments that were found is as long as before (times beta), and so the box is as large."""
    fresh = ReleasedScales(rule, model(), 3.0, kind)  # type: ignore[arg-type]
    side = 1.0 if kind == "ellipsoid" else 3.0 / math.sqrt(15)
    assert torch.equal(flat(fresh.scales()), torch.full((15,), side, dtype=torch.float64))
    geometry = fed(rule, kind)
    assert geometry.shaped
    moments: Tensor | None = geometry._squares
    if isinstance(rule, ADADP | DPOPT):
        moments = floored(geometry._squares, rule.floor * geometry._error)
    assert moments is not None
    beta = rule.beta if isinstance(rule, ADADP) else 1.0
    length = (moments / (flat(geometry.scales()) / side).square()).sum()
    assert float(length) == pytest.approx(float(moments.sum()) / beta**2, rel=1e-9)


def test_while_nothing_is_seen_above_the_noise_clipping_stays_global_or_nearly() -> None:
    """Releases of noise alone: with a floor of 6 standard deviations none of 40 x 15 averages is above it."""
    generator = torch.Generator().manual_seed(4)
    geometry = ReleasedScales(ADADP(floor=6.0), model(), 3.0)
    for _ in range(40):
        geometry.update(release_of(2.0 * torch.randn(15, generator=generator, dtype=torch.float64)), 2.0, 10.0)
        assert not geometry.shaped


def test_adadp_switches_by_the_variance_of_the_roots() -> None:
    """Global while it is at most the threshold, local above, and back."""
    for threshold, shaped in ((1e6, False), (1e-6, True)):
        geometry = fed(ADADP(threshold=threshold))
        assert geometry.shaped is shaped
        assert bool((flat(geometry.scales()) == 1).all()) is not shaped
    geometry = fed(ADADP())
    assert geometry.shaped
    for _ in range(200):  # releases of nothing but their noise: the roots go to zero
        geometry.update(release_of(2.0 * torch.ones(15, dtype=torch.float64)), 2.0, 10.0)
    assert not geometry.shaped


POSITIVE = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(POSITIVE, st.integers(0, 2**31), st.floats(0.3, 10.0))
def test_the_closed_form_is_least_and_meets_lemma_1(sizes: list[float], seed: int, multiplier: float) -> None:
    """No other noise with the same sum does less harm: 50 random ones, near and far."""
    s, generator = torch.tensor(sizes, dtype=torch.float64), torch.Generator().manual_seed(seed)
    h = torch.exp(2 * torch.randn(len(s), generator=generator, dtype=torch.float64))
    best = least_harm(s, h, multiplier)
    assert float((s / best).square().sum()) == pytest.approx(1 / multiplier**2, rel=1e-9)
    least = float((h * best.square()).sum())
    for spread in (0.01, 1.0):
        for _ in range(25):
            other = best * torch.exp(spread * torch.randn(len(s), generator=generator, dtype=torch.float64))
            other *= (s / other).norm() * multiplier
            assert float((h * other.square()).sum()) >= least * (1 - 1e-9)


@pytest.mark.parametrize("numbers", [2, 10, 1000])
def test_fifty_steps_of_projected_gradient_find_the_same(numbers: int) -> None:
    generator = torch.Generator().manual_seed(numbers)
    s, h = (torch.exp(torch.randn(numbers, generator=generator, dtype=torch.float64)) for _ in range(2))
    slow, closed = projected_gradient(s, h, 2.0), least_harm(s, h, 2.0)
    assert float((s / slow).square().sum()) == pytest.approx(0.25, rel=1e-9)
    harms = [float((h * sigma.square()).sum()) for sigma in (slow, closed)]
    assert harms[1] * (1 - 1e-12) <= harms[0] <= harms[1] * 1.001
    torch.testing.assert_close(slow, closed, rtol=0.1, atol=0)
    few = projected_gradient(s, h, 2.0, steps=1)
    assert float((h * few.square()).sum()) > harms[0]


def test_what_dpopt_comes_to_for_some_powers() -> None:
    """-1 is ADADP's scales, 0 AdaClip's, 1 flat clipping."""
    squares = torch.exp(torch.randn(15, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    wanted = {
        -1.0: ADADP(beta=1.0).scales(squares, 0.0),
        0.0: AdaClip(high=1e9).scales(squares, 0.0),
        1.0: torch.ones(15, dtype=torch.float64),
    }
    for power, scales in wanted.items():
        found = DPOPT(power=power).scales(squares, 0.0)
        assert found is not None
        torch.testing.assert_close(found, scales, rtol=1e-9, atol=0)


def test_adaclip_cuts_squares_before_it_averages_them() -> None:
    geometry = ReleasedScales(AdaClip(decay=0.75, low=1e-3, high=2.0), model(), 1.0)
    numbers = torch.linspace(0, 30, 15, dtype=torch.float64)
    geometry.update(release_of(numbers), 5.0, 10.0)
    wanted = 0.25 * ((numbers**2 - 25) / 100).clamp(1e-3, 2.0)
    torch.testing.assert_close(geometry._squares, wanted, rtol=1e-12, atol=0)
    s = wanted.sqrt()
    torch.testing.assert_close(flat(geometry.scales()), (s * s.sum() / wanted.sum()).sqrt(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-30, 1e30, 1e120])
def test_whatever_is_released_scales_are_finite_and_positive(rule: Rule, size: float) -> None:
    for numbers in (torch.ones(15), torch.eye(15)[0], torch.zeros(15)):
        geometry = ReleasedScales(rule, model(), 3.0)
        for _ in range(3):
            geometry.update(release_of(size * numbers.double()), 1e-9, 10.0)
            found = flat(geometry.scales())
            assert bool((torch.isfinite(found) & (found > 0)).all())


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_on_where_it_was_and_fits_no_other(kind: Any) -> None:
    one, other = fed(ADADP(), kind), ReleasedScales(ADADP(), model(), 3.0, kind)
    other.load_state_dict(one.state_dict())
    assert torch.equal(flat(one.scales()), flat(other.scales()))
    fresh = ReleasedScales(ADADP(), model(), 3.0, kind)
    fresh.load_state_dict(fresh.state_dict())
    assert not fresh.shaped
    for wrong in (ReleasedScales(DPOPT(), model(), 3.0, kind), ReleasedScales(ADADP(), nn.Linear(2, 2), 3.0, kind)):
        with pytest.raises(InputError, match="go on with the same"):
            wrong.load_state_dict(one.state_dict())


def test_a_box_is_named_with_its_norm_so_that_another_does_not_go_with_the_plan() -> None:
    assert ReleasedScales(ADADP(), model(), 4.0, "box").clipping == {"kind": "box", "scales": "adadp with clip norm 4"}
    assert ReleasedScales(ADADP(), model(), 4.0).clipping == {"kind": "ellipsoid", "scales": "adadp", "norm": 4.0}


def test_the_learning_rate_is_equation_1() -> None:
    """But for epsilon_0, which torch puts beside the root."""
    net = nn.Linear(2, 1, bias=False)
    w, average = net.weight.detach().clone(), torch.zeros(1, 2)
    methods = [make(net, 0.01, clip_norm=1.0, eps=1e-30) for make in (adadp, adal)]
    assert isinstance(methods[0].optimizer, torch.optim.RMSprop)
    for gradient in torch.tensor([[[1.0, -2.0]], [[0.5, 0.1]], [[3.0, 0.2]]]):
        net.weight.grad = gradient
        methods[1].optimizer.step()
        average = 0.9 * average + 0.1 * gradient**2
        w = w - 0.01 * gradient / average.sqrt()
    torch.testing.assert_close(net.weight.detach(), w)
    assert methods[1].geometry is None
    assert isinstance(adan(net, clip_norm=1.0).optimizer, torch.optim.SGD)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: ADADP(beta=0.0), "beta must be finite and greater than 0"),
        (lambda: ADADP(floor=math.nan), "floor must be a number"),
        (lambda: ADADP(decay=1.0), "decay must be greater than 0 and less than 1"),
        (lambda: DPOPT(power=2.0), "power must be from -1 to 1"),
        (lambda: AdaClip(low=2.0), "low must be below high"),
        (lambda: ReleasedScales(ADADP(), model(), 0.0), "clip_norm must be finite"),
        (lambda: ReleasedScales(ADADP(), model(), 1.0, "ball"), "kind must be 'ellipsoid' or 'box'"),
        (lambda: ReleasedScales(ADADP(), model().requires_grad_(False), 1.0), "no parameter with requires_grad"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        make()


def test_numbers_are_those_of_the_release_not_of_the_gradient() -> None:
    """Scales multiply what was released: a wrong unit would show here."""
    geometry = ReleasedScales(ADADP(beta=1.0), model(), 1.0)
    numbers = torch.arange(1, 16, dtype=torch.float64)
    geometry.update(release_of(numbers), 0.0, 1.0)
    np.testing.assert_allclose(flat(geometry.scales()), numbers / numbers.square().mean().sqrt(), rtol=1e-12)
    first = geometry._squares.clone()
    geometry.update(release_of(torch.ones(15, dtype=torch.float64)), 0.0, 1.0)
    wanted = 0.9 * first + 0.1 * numbers**2 / float(numbers.square().mean())
    torch.testing.assert_close(geometry._squares, wanted, rtol=1e-12, atol=0)
