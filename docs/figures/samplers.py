"""The pictures of docs/samplers.md: `python docs/figures/samplers.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from discreet import Adjacency, Gaussian, Repeat, guarantee
from discreet.core.events import Allocation, Epoch, Event, FixedSize, Poisson, TruncatedPoisson
from discreet.randomness import TestStream
from discreet.sampling import (
    AllocationSampler,
    EveryoneSampler,
    FixedSizeSampler,
    PoissonSampler,
    Sampler,
    ShuffleSampler,
    TruncatedPoissonSampler,
)

HERE = Path(__file__).parent
RECORDS, STEPS = 10, 10
SAMPLERS: dict[str, Sampler] = {
    "Poisson, rate 0.2": PoissonSampler(0.2),
    "truncated Poisson,\nat most 3": TruncatedPoissonSampler(0.2, 3, RECORDS),
    "fixed size, 2 of 10": FixedSizeSampler(RECORDS, 2),
    "shuffled epochs,\nbatches of 2": ShuffleSampler(RECORDS, 2),
    "allocation,\n1 of 5 steps": AllocationSampler(5),
    "no sampling": EveryoneSampler(),
}

POPULATION, BATCH, EPOCHS, DELTA = 10_000, 100, 10, 1e-6
CAPACITY = 170


def batches_of_ten_records() -> None:
    """Who takes part in ten steps, after Table I of Yu et al. 2019."""
    figure, axes = plt.subplots(2, 3, figsize=(9, 6.2), sharex=True, sharey=True, layout="constrained")
    for axis, (name, sampler) in zip(axes.flat, SAMPLERS.items(), strict=True):
        table = np.zeros((RECORDS, STEPS))
        stream = TestStream(4)
        for first in range(0, STEPS, sampler.period):
            for i, batch in enumerate(sampler.batches(first, RECORDS, stream)):
                table[batch, first + i] = 1
        axis.pcolormesh(table, cmap="Blues", vmin=0, vmax=1.3, edgecolors="white", linewidth=1.5)
        for edge in range(sampler.period, STEPS, sampler.period) if sampler.period > 1 else ():
            axis.axvline(edge, color="black", linewidth=1)
        axis.set_title(name.replace("\n", " "), fontsize=10)
        axis.set_xticks(np.arange(STEPS) + 0.5, range(1, STEPS + 1))
        axis.set_yticks(np.arange(RECORDS) + 0.5, range(1, RECORDS + 1))
        axis.tick_params(length=0)
    figure.supxlabel("step (lines: a new epoch or period)")
    figure.supylabel("record")
    figure.savefig(HERE / "samplers-batches.png", dpi=140)
    plt.close(figure)


def events(noise: float) -> dict[str, tuple[Event, tuple[Adjacency, ...]]]:
    """The same noise and expected batch under every sampler."""
    rate, period = BATCH / POPULATION, POPULATION // BATCH
    steps, one = EPOCHS * period, Gaussian(noise)
    both = (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    return {
        "Poisson": (Repeat(Poisson(rate, one), steps), (Adjacency.ZERO_OUT,)),
        f"truncated, at most {CAPACITY}": (
            Repeat(TruncatedPoisson(rate, CAPACITY, POPULATION, one), steps),
            (Adjacency.ZERO_OUT,),
        ),
        "fixed size": (Repeat(FixedSize(POPULATION, BATCH, one), steps), (Adjacency.REPLACE_ONE,)),
        "shuffled epochs": (Repeat(Epoch(Repeat(one, period)), EPOCHS), both),
        "allocation": (Repeat(Allocation(period, 1, one), EPOCHS), both),
        "no sampling": (Repeat(one, steps), both),
    }


def prices() -> None:
    """Epsilon over the noise multiplier, by sampler and adjacency; shaded down to the lower bound where it is known."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    noises = np.geomspace(0.5, 8, 25)
    colours = dict(zip(events(1.0), plt.get_cmap("tab10").colors, strict=False))  # type: ignore[attr-defined]
    for axis, adjacency in zip(axes, (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE), strict=True):
        for name, (_, adjacencies) in events(1.0).items():
            if adjacency not in adjacencies:
                continue
            found = [guarantee(events(noise)[name][0], DELTA, adjacency) for noise in noises]
            upper, lower = [one.epsilon for one in found], [one.lower or 0.0 for one in found]
            dashed = "--" if name.startswith(("truncated", "allocation")) else "-"
            axis.plot(noises, upper, dashed, color=colours[name], label=name)
            axis.fill_between(noises, lower, upper, color=colours[name], alpha=0.12, linewidth=0)
        axis.set(xscale="log", yscale="log", ylim=(0.1, 100), xlabel="noise multiplier", title=adjacency.value)
        axis.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9)
    axes[0].set_ylabel(f"epsilon at delta {DELTA:g}")
    axes[0].set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    figure.savefig(HERE / "samplers-prices.png", dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    batches_of_ten_records()
    prices()
