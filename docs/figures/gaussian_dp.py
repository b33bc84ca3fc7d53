"""Figures 2, 3 and A.1 of Bu, Dong, Long, Su 2020 ("Deep Learning with Gaussian Differential Privacy"), with the truth.

Run it from anywhere: it writes three pictures beside itself. The paper compares its central limit theorem (CLT) with
the moments accountant (MA). Each picture adds what is proved today: the privacy-loss distribution of the same plan.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discreet.accounting import gdp, published, rdp
from discreet.accounting.account import Method, account
from discreet.accounting.tradeoff import TradeOff, from_mu, from_pairs, trade_off
from discreet.core.arrays import Array
from discreet.core.events import Event, Poisson, Repeat
from discreet.core.events import Gaussian as GaussianEvent

HERE = Path(__file__).parent
RATE = 256 / 60000
DELTA = 1e-5
TABLE_1 = [(1.3, 15), (1.1, 60), (0.7, 45), (0.6, 62), (0.55, 68), (0.5, 100)]
"""(noise multiplier, epochs) of the paper's table 1."""

EXACT, CLT, MOMENTS = "#0b5394", "#c0392b", "#7a6a00"


def plan(noise: float, steps: int, rate: float = RATE) -> Event:
    """`steps` Poisson-sampled Gaussian releases."""
    return Repeat(Poisson(rate, GaussianEvent(noise)), steps)


def steps_of(epochs: float) -> int:
    """Steps of so many epochs."""
    return max(1, round(epochs / RATE))


def by_moments(noise: float, steps: int) -> TradeOff:
    """What all (epsilon, delta) of the moments accountant say together."""
    curve = rdp.compose([(partial(rdp.sampled_gaussian, RATE, noise), steps)])
    deltas = np.logspace(-12, -0.01, 120)
    return from_pairs(np.array([max(0.0, published.moments(curve, float(delta))) for delta in deltas]), deltas)


def clt_mu(noise: float, steps: int, rate: float = RATE) -> float:
    """Equation 3.1."""
    return gdp.clt_mu([(rate, noise, steps)])


def dress(axes: Axes, x: str, y: str, title: str) -> None:
    """Labels, a light grid and no box."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(True, color="#e3e6ea", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def new(columns: int, rows: int) -> tuple[Figure, list[Axes]]:
    """A figure with a grid of axes."""
    figure = Figure(figsize=(4.1 * columns, 3.7 * rows), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(np.ravel(figure.subplots(rows, columns)))


def figure_2() -> None:
    """Epsilon against delta, epochs and noise: noise 0.7, batches of 256 out of 60,000."""
    figure, (profile, over_epochs, over_noise) = new(3, 1)
    noise, epochs = 0.7, 45
    curve, mu = trade_off(plan(noise, steps_of(epochs))), clt_mu(noise, steps_of(epochs))
    epsilons = np.linspace(0, 9, 91)
    for found, colour, name in (
        (by_moments(noise, steps_of(epochs)).delta(epsilons), MOMENTS, "moments accountant"),
        (curve.delta(epsilons), EXACT, "exact"),
        (from_mu(mu).delta(epsilons), CLT, "CLT"),
    ):
        profile.plot(epsilons, found, color=colour, label=name, linestyle="--" if name == "CLT" else "-")
    profile.set_yscale("log")
    profile.set_ylim(1e-9, 1)
    profile.legend(frameon=False)
    dress(profile, "epsilon", "delta", f"After {epochs} epochs at noise {noise}")
    several = {
        over_epochs: ([(noise, e) for e in (1, 5, 10, 20, 30, 45, 60, 80, 100)], 1, "epochs", f"Noise {noise}"),
        over_noise: ([(n, epochs) for n in (0.55, 0.6, 0.65, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4)], 0, "noise multiplier", ""),
    }
    for axes, (points, position, label, title) in several.items():
        for method, colour in ((Method.MOMENTS, MOMENTS), (Method.PLD, EXACT), (Method.CLT, CLT)):
            epsilon = [account(plan(n, steps_of(e)), DELTA, method=method).epsilon for n, e in points]
            style = "--" if method is Method.CLT else "-"
            axes.plot([point[position] for point in points], epsilon, color=colour, linestyle=style)
        axes.set_ylim(bottom=0)
        dress(axes, label, f"epsilon at delta = {DELTA:g}", title or f"After {epochs} epochs")
    figure.savefig(HERE / "gaussian-dp-2.png")


def figure_3() -> None:
    """Trade-off functions for the six rows of table 1."""
    figure, panels = new(3, 2)
    shares = np.linspace(0, 1, 201) ** 2
    for axes, (noise, epochs) in zip(panels, TABLE_1, strict=True):
        steps = steps_of(epochs)
        curve, mu = trade_off(plan(noise, steps)), clt_mu(noise, steps)
        epsilon = account(plan(noise, steps), DELTA, method=Method.MOMENTS).epsilon
        one = from_pairs(np.array([epsilon]), np.array([DELTA]))
        axes.plot(shares, 1 - shares, color="#999999", linewidth=0.8)
        lines: list[tuple[Array, str, str, str]] = [
            (curve.lower(shares), EXACT, "-", "exact, proved"),
            (from_mu(mu).lower(shares), CLT, "--", f"CLT, mu = {mu:.2f}"),
            (by_moments(noise, steps).lower(shares), MOMENTS, "-", "all (epsilon, delta) of MA"),
            (one.lower(shares), MOMENTS, ":", f"({epsilon:.2f}, 1e-5) of MA"),
        ]
        for found, colour, style, name in lines:
            axes.plot(shares, found, color=colour, linestyle=style, label=name)
        axes.legend(frameon=False, fontsize=8)
        dress(axes, "type I error", "type II error", f"noise {noise}, {epochs} epochs")
    figure.savefig(HERE / "gaussian-dp-3.png")


def figure_a1() -> None:
    """One epoch at noise 1.1, the rate enlarged so that rate x sqrt(steps) is that of 60 epochs."""
    figure, (whole, gap) = new(2, 1)
    steps = 234
    rate = RATE * math.sqrt(steps_of(60) / steps)
    curve, mu = trade_off(plan(1.1, steps, rate)), clt_mu(1.1, steps, rate)
    shares = np.linspace(0, 1, 401) ** 2
    limit = from_mu(mu)
    whole.plot(shares, curve.lower(shares), color=EXACT, linewidth=3.2, label="exact, 234 steps")
    whole.plot(shares, limit.lower(shares), color=CLT, linestyle="--", label=f"limit, mu = {mu:.3f}")
    whole.legend(frameon=False)
    dress(whole, "type I error", "type II error", "Side by side they look the same")
    small = np.logspace(-8, -1, 200)
    gap.plot(small, curve.power(small) / limit.power(small), color=EXACT)
    gap.axhline(1, color=CLT, linestyle="--")
    gap.set_xscale("log")
    dress(gap, "type I error", "power, exact over limit", "At small errors the limit promises too much")
    figure.savefig(HERE / "gaussian-dp-a1.png")


if __name__ == "__main__":
    figure_2()
    figure_3()
    figure_a1()
