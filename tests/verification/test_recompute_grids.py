"""The parts of the independent accountant: losses on a grid, their composition, special functions, and its imports."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from scipy.special import erfcx, ndtr

from discreet.verification.recompute import poisson_loss
from discreet.verification.recompute.compose import Orders, compose
from discreet.verification.recompute.events import Part


@pytest.mark.parametrize("removal", [True, False])
@pytest.mark.parametrize(
    ("rate", "mu", "h"), [(0.01, 1.0, 1e-3), (0.004, 2.0, 3e-4), (0.3, 0.1, 1e-2), (1.0, 3.0, 0.05)]
)
def test_grid_losses_enclose_the_hockey_stick_of_one_step(rate: float, mu: float, h: float, removal: bool) -> None:
    """E(1 - e^epsilon exp(-L))+ of the upper and lower grid loss against numerical integration."""
    over, under = (make(Part(rate, mu, 1), h, 8.0, removal) for make in (poisson_loss.above, poisson_loss.below))
    z = np.linspace(-9, 9 + mu, 400_001)
    base = np.exp(-z * z / 2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    mixture = base * (1 - rate + rate * np.exp(mu * z - mu * mu / 2))
    p, q = (mixture, base) if removal else (base, mixture)
    for epsilon in (-2.0, -0.3, -1e-3, 0.0, 1e-3, 0.1, 1.0, 3.0):
        exact = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)))
        found = []
        for loss in (under, over):
            t = (loss.first + np.arange(len(loss.mass))) * h
            found.append(
                float(np.sum(loss.mass * np.maximum(-np.expm1(np.minimum(epsilon - t, 0)), 0))) + loss.infinite
            )
        assert found[0] - 1e-9 <= exact <= found[1] + 1e-9
        assert found[1] - found[0] <= 2 * h


def test_composition_agrees_with_direct_convolution() -> None:
    """The tilted Fourier curve against np.convolve."""
    h, rng = 0.125, np.random.default_rng(0)
    grid_losses = [
        poisson_loss.Loss(-3, rng.dirichlet(np.ones(9)), 1e-9, 0.0),
        poisson_loss.Loss(0, rng.dirichlet(np.ones(4)), 0.0, 0.0),
    ]
    counted = [(grid_losses[0], 3), (grid_losses[1], 2)]
    mass = np.ones(1)
    for loss, count in counted:
        for _ in range(count):
            mass = np.convolve(mass, loss.mass)
    t = (np.arange(len(mass)) - 9) * h
    orders = Orders(tilt=2.0, rise=5.0, fall=5.0, epsilon=1.0, width=5.0)
    upper, lower = (compose(counted, h, orders, sign, 2**20) for sign in (+1, -1))
    for epsilon in (0.0, 0.4, 1.3, 2.0):
        exact = float(np.sum(mass * np.maximum(-np.expm1(np.minimum(epsilon - t, 0)), 0)))
        high = upper.delta(epsilon, 1.0, *upper.untilt(1.0, 0.0))
        low = lower.delta(epsilon, 1.0, *lower.untilt(1.0, 0.0))
        assert low <= exact <= exact + 3e-9 <= high * (1 + 1e-12)
        assert high - low <= 1e-7


def test_special_functions_are_as_accurate_as_assumed() -> None:
    """losses._masses assumes (24 + 2 x^2) EPS of ndtr; gaussian._delta assumes 32 EPS of erfcx."""
    rng = np.random.default_rng(1)
    with mpmath.workdps(40):
        for x in map(float, np.concatenate([-rng.uniform(0, 36, 300), rng.uniform(0, 9, 100)])):
            exact = mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2
            assert abs(mpmath.mpf(float(ndtr(x))) / exact - 1) <= poisson_loss.EPS * (24 + 2 * x * x)
        for x in map(float, 10 ** rng.uniform(-6, 3, 200)):
            exact = mpmath.erfc(mpmath.mpf(x)) * mpmath.exp(mpmath.mpf(x) ** 2)
            assert abs(mpmath.mpf(float(erfcx(x))) / exact - 1) <= 32 * poisson_loss.EPS


def test_shares_no_code_with_the_trainer() -> None:
    code = "import sys, json, discreet.verification.recompute; print(json.dumps(sorted(sys.modules)))"
    names = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not [
        name for name in names if name.startswith(("discreet.accounting", "torch", "scipy.stats", "dp_accounting"))
    ]
