"""The noise that is left in sums of gradients where it is correlated, for docs/methods/correlated-noise.md.

python benchmarks/correlated_noise.py

Root mean square of the noise in the sums of the first 1, 2, ..., T releases, over that of independent noise on Poisson
batches of the same rate for the same budget (`accounting.answers.bands`), at delta 1e-5 under add/remove.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt

from discreet.accounting.answers.bands import Bands, best_bands, choices

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
DELTA = 1e-5
CASES = {
    "1 pass of 100 batches": (0.01, 100),
    "3 passes of 100": (0.01, 300),
    "10 passes of 100": (0.01, 1000),
    "100 passes of 100": (0.01, 10_000),
    "1 pass of 1,000": (0.001, 1000),
    "20 passes of 4": (0.25, 80),
}
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def rows() -> Iterator[str]:
    """The table: the noise that is left, and over how many steps noise is correlated for that."""
    yield "| | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |"
    yield "|---|" + "---|" * len(EPSILONS)
    for name, (rate, steps) in CASES.items():
        cells = [cell(best_bands(rate, steps, epsilon, DELTA)) for epsilon in EPSILONS]
        yield f"| {name} | " + " | ".join(cells) + " |"


def cell(one: Bands) -> str:
    """A cell: the share of noise that is left, and the number of bands."""
    return f"{one.gain:.2f} ({len(one.coefficients)})"


def picture() -> None:
    """Noise that is left over the number of bands, for each budget."""
    rate, steps = CASES["10 passes of 100"]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for epsilon in EPSILONS:
        found = choices(rate, steps, epsilon, DELTA)
        (line,) = axes.plot([len(one.coefficients) for one in found], [one.gain for one in found], "o-", markersize=4)
        line.set_label(f"epsilon {epsilon:g}")
    axes.axhline(1.0, color="0.6", linewidth=1)
    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(6)]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_ylim(0.4, 1.3)
    axes.set_xlabel("steps over which noise is correlated (1: independent noise)")
    axes.set_ylabel("noise in sums of gradients, independent = 1")
    axes.set_title("10 passes of 100 batches, delta 1e-5", fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(FIGURES / "correlated-noise.png", dpi=140)


def main() -> None:
    print("\n".join(rows()))
    picture()


if __name__ == "__main__":
    main()
