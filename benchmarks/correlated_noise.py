"""What noise that takes part of the last step's back would gain: table and picture of docs/methods/correlated-noise.md.

python benchmarks/correlated_noise.py

Noise z_t - lambda z_{t-1} on a sequence of sums is the matrix mechanism with C^-1 = 1 - lambda (shift). Its sensitivity
is the longest sum of columns of C, C_ij = lambda^(i - j), that one unit can be in. Everything here is in units of the
clip norm, under zero-out.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from discreet import Adjacency, Gaussian, Poisson, Repeat
from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.accounting.theories.gdp import mu_for

Pair = tuple[float, float]

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
DELTA = 1e-5
LAMBDAS = (0.0, *(1 - 0.5**k for k in np.arange(0.25, 10.01, 0.25)))
CASES = {"one epoch of 100 batches": (100, 1), "10 epochs of 100": (100, 10), "20 epochs of 4": (4, 20)}
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def prefix_rmse(steps: int, back: float) -> float:
    """Root mean square, over t = 1 to `steps`, of the noise in the sum of the first t releases, for noise of size 1.

    Sums telescope: z_t + (1 - lambda)(z_1 + ... + z_{t-1}).
    """
    return math.sqrt(1 + (1 - back) ** 2 * (steps - 1) / 2)


def last_noise(steps: int, back: float) -> float:
    """The same for the sum of all releases alone."""
    return math.sqrt(1 + (1 - back) ** 2 * (steps - 1))


def fixed_order(batches: int, epochs: int, back: float) -> float:
    """Sensitivity when every epoch has the same disjoint batches in the same order, exactly.

    C has no negative entry, so that contributions that all point one way are the worst, and those to the first batch.
    """
    total, held = 0.0, 0.0
    for step in range(batches * epochs):
        held = back * held + (step % batches == 0)
        total += held**2
    return math.sqrt(total)


def reshuffled(batches: int, epochs: int, back: float) -> float:
    """An upper bound on the sensitivity when each epoch has an order of its own: one batch in each, anywhere.

    Inner products of columns are at most lambda^|i - j| / (1 - lambda^2), whose sum is convex in each position, so the
    worst positions are first or last in their epochs; the longest of these patterns is found epoch by epoch.
    """
    if back == 0:
        return math.sqrt(epochs)
    open_ends: dict[int, list[Pair]] = {0: [(0.0, float(epochs))], batches - 1: [(0.0, float(epochs))]}
    for _ in range(1, epochs):
        open_ends = {
            place: _undominated(
                [
                    ((near + 1) * back ** (batches + place - before), total)
                    for before, pairs in open_ends.items()
                    for near, total in pairs
                ]
            )
            for place in open_ends
        }
    return math.sqrt(max(total for pairs in open_ends.values() for _, total in pairs) / (1 - back**2))


def _undominated(pairs: list[Pair]) -> list[Pair]:
    """Those that no other one beats in both: more of the past in reach, or a larger total, which takes it in."""
    found: list[Pair] = []
    for near, total in sorted(((near, total + 2 * near) for near, total in pairs), reverse=True):
        if not found or total > found[-1][1]:
            found.append((near, total))
    return found


def gain(batches: int, epochs: int, sensitivity: object = fixed_order) -> tuple[float, float]:
    """(lambda, RMSE over that of independent noise) at equal privacy, no sampling, at the best lambda."""
    assert callable(sensitivity)
    steps = batches * epochs
    plain = math.sqrt(epochs) * prefix_rmse(steps, 0.0)
    found = [(sensitivity(batches, epochs, back) * prefix_rmse(steps, back) / plain, back) for back in LAMBDAS]
    ratio, back = min(found)
    return back, ratio


def over_poisson(batches: int, epochs: int, epsilon: float, ratio: float) -> float:
    """RMSE at (epsilon, DELTA) over that of independent noise on Poisson batches of the same expected size.

    `ratio`: RMSE over that of independent noise on disjoint batches, which are sqrt(epochs)/sigma-GDP.
    """
    mu = mu_for(epsilon, DELTA)
    sampled, _ = calibrate_noise(
        lambda noise: Repeat(Poisson(1 / batches, Gaussian(noise)), batches * epochs),
        epsilon,
        DELTA,
        Adjacency.ZERO_OUT,
    )
    return ratio * math.sqrt(epochs) / mu / sampled


def table() -> None:
    """Print the tables of the page."""
    print("| | lambda | no sampling, same order | lambda | no sampling, reshuffled |\n|---|---|---|---|---|")
    for name, (batches, epochs) in CASES.items():
        same, anew = gain(batches, epochs), gain(batches, epochs, reshuffled)
        print(f"| {name} | {same[0]:.3f} | {same[1]:.2f} | {anew[0]:.3f} | {anew[1]:.2f} |")
    for steps in (10, 100, 1000):
        print(f"| full batch, {steps} steps | {gain(1, steps)[0]:.3f} | {gain(1, steps)[1]:.4f} | | |")
    print("\n| | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |")
    print("|---" * (1 + len(EPSILONS)) + "|")
    for name, (batches, epochs) in CASES.items():
        base = [over_poisson(batches, epochs, epsilon, 1.0) for epsilon in EPSILONS]
        for kind, sensitivity in (("same order", fixed_order), ("reshuffled", reshuffled)):
            ratio = gain(batches, epochs, sensitivity)[1]
            cells = [f"{ratio * value:.2f}" for value in base]
            print(f"| {name}, {kind} | " + " | ".join(cells) + " |")


def picture() -> None:
    """RMSE over that of independent noise on Poisson batches, over epsilon."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    epsilons = np.geomspace(0.5, 16, 11)
    for axis, (name, (batches, epochs)) in zip(axes, CASES.items(), strict=True):
        base = [over_poisson(batches, epochs, epsilon, 1.0) for epsilon in epsilons]
        axis.axhline(1.0, color="black", linewidth=1)
        axis.plot(epsilons, base, ":", color="#7f7f7f", label="independent, disjoint batches")
        for label, colour, sensitivity in (
            ("correlated, reshuffled", "#c0392b", reshuffled),
            ("correlated, same order", "#0b5394", fixed_order),
        ):
            ratio = gain(batches, epochs, sensitivity)[1]
            axis.plot(epsilons, [ratio * value for value in base], color=colour, label=label)
        axis.set(xscale="log", yscale="log", xlabel=f"epsilon at delta {DELTA:g}", title=name)
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("RMSE of prefix sums,\nindependent noise and Poisson = 1")
    axes[0].set_yticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
    axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(FIGURES / "correlated-noise.png", dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    table()
    picture()
