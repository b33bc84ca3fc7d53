"""The picture of docs/methods/optimizers.md: `python docs/figures/optimizers.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from discreet.methods import DPAdamBC, tell_noise

HERE = Path(__file__).parent
STEPS, COPIES, NOISE = 1000, 200, 1.0
SIGNALS = torch.logspace(-2, 1, 25)

OPTIMIZERS: dict[str, tuple[str, str, Callable[[nn.Parameter], torch.optim.Optimizer]]] = {
    "NoisySGD": ("#7f7f7f", "-", lambda w: torch.optim.SGD([w], lr=1.0)),
    "NoisyAdam": ("#c0392b", "-", lambda w: torch.optim.Adam([w], lr=1.0, betas=(0.9, 0.999))),
    "NoisyRMSProp": ("#e67e22", "--", lambda w: torch.optim.RMSprop([w], lr=1.0, alpha=0.999)),
    "NoisyAdaGrad": ("#8e44ad", ":", lambda w: torch.optim.Adagrad([w], lr=1.0)),
    "DP-AdamBC": (
        "#0b5394",
        "-",
        lambda w: DPAdamBC([w], lr=1.0, betas=(0.9, 0.999), floor=0.1 * NOISE**2),
    ),
}


def drift(build: Callable[[nn.Parameter], torch.optim.Optimizer], noise: float) -> np.ndarray:
    """How far a weight whose gradient is the signal has moved after the last 500 steps, over a rate of 1, by signal."""
    weights = nn.Parameter(torch.zeros(COPIES, len(SIGNALS)))
    optimizer, generator = build(weights), torch.Generator().manual_seed(0)
    start = weights.detach().clone()
    for step in range(STEPS):
        if step == STEPS // 2:
            start = weights.detach().clone()
        weights.grad = SIGNALS + noise * torch.randn(weights.shape, generator=generator)
        tell_noise(optimizer, noise)
        optimizer.step()
    moved: np.ndarray = (start - weights.detach()).mean(0).numpy() / (STEPS - STEPS // 2)
    return moved


def picture() -> None:
    """Mean update over the size of the gradient, with noise of one and without."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    for axis, noise, title in zip(axes, (0.0, NOISE), ("without noise", "noise of 1 in the mean"), strict=True):
        for name, (colour, style, build) in OPTIMIZERS.items():
            found = drift(build, noise)
            found = found / found[-1]
            axis.plot(SIGNALS, np.where(found > 0, found, np.nan), style, color=colour, label=name)
        axis.set(xscale="log", yscale="log", xlabel="gradient of a weight", title=title, ylim=(5e-4, 3))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean update, that of gradient 10 = 1")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=9, ncols=5, loc="outside lower center")
    figure.savefig(HERE / "optimizers.png", dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    picture()
