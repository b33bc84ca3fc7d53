"""The picture of docs/tuning.md: `python docs/figures/tuning.py`."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt

from discreet import Gaussian, Poisson, Repeat, calibrate_noise, guarantee
from discreet.core.events import Selection
from discreet.core.trials import PoissonTrials, Trials
from discreet.plan.tuning.random_stopping import law

HERE = Path(__file__).parent
RATE, STEPS, DELTA = 0.05, 300, 1e-5
CANDIDATES = 10
MEANS = (2, 3, 5, 8, 12, 20, 30, 50)
LAWS = ("geometric", "logarithmic", "poisson")
COLOURS = {"geometric": "#0b6e4f", "logarithmic": "#3d7dd8", "poisson": "#c2703d", "all": "#777777"}


def missed(trials: Trials, share: float) -> float:
    """The chance that no trial has a candidate that is drawn with probability `share`: E[(1 - share)^K]."""
    x = 1 - share
    if isinstance(trials, PoissonTrials):
        return math.exp(-trials.mean * share)
    eta, gamma = trials.shape, trials.success
    inside = 1 - (1 - gamma) * x
    if eta == 0:
        return math.log(inside) / math.log(gamma)
    return (inside**-eta - 1) / (gamma**-eta - 1)


def main() -> None:
    """Prices of searches over runs that cost epsilon 1 each."""
    noise, one = calibrate_noise(lambda s: Repeat(Poisson(RATE, Gaussian(s)), STEPS), 1.0, DELTA)
    run = Repeat(Poisson(RATE, Gaussian(noise)), STEPS)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
    counts = range(1, 9)
    every = [guarantee(Repeat(run, count), DELTA).epsilon for count in counts]
    left.plot(counts, every, "o--", color=COLOURS["all"], label="all runs released", markersize=3)
    chances = [(1 - 1 / CANDIDATES) ** count for count in counts]
    right.plot(chances, every, "o--", color=COLOURS["all"], markersize=3)
    for name in LAWS:
        laws = [law(name, mean) for mean in MEANS]
        prices = [guarantee(Selection(run, each), DELTA).epsilon for each in laws]
        left.plot(MEANS, prices, "o-", color=COLOURS[name], label=name, markersize=3)
        right.plot([missed(each, 1 / CANDIDATES) for each in laws], prices, "o-", color=COLOURS[name], markersize=3)
    left.axhline(one.epsilon, color="black", linewidth=0.8)
    left.annotate("one run", (50, one.epsilon), ha="right", va="bottom", fontsize=9)
    left.set(xlabel="runs (on average)", ylabel="epsilon of the whole search", xscale="log", ylim=(0.8, 3.2))
    left.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    left.minorticks_off()
    right.set(xlabel=f"chance that one of {CANDIDATES} candidates is never tried", xlim=(0, 1))
    right.axhline(one.epsilon, color="black", linewidth=0.8)
    left.legend(frameon=False, fontsize=9)
    for axis in (left, right):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "tuning-prices.png", dpi=140)


if __name__ == "__main__":
    main()
