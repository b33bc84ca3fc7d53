"""The picture of docs/methods/dpopt.md: the least harmful noise by formula, and scales of DPOPT and AdaClip at work.

    python docs/figures/dpopt.py

Beside itself it writes `dpopt.png`.
"""

from __future__ import annotations

import numpy as np
import torch
from adadp import COLOURS, HERE, at_work, dress, new
from matplotlib.axes import Axes

from discreet.core.array_types import Array
from discreet.methods import DPOPT, AdaClip, adaclip, dpopt
from discreet.methods.dpopt import least_harm

POWERS = {-1.0: "-1: ADADP", 0.0: "0: AdaClip", 0.5: "1/2: default", 1.0: "1: flat"}


def formula(noise: Axes, saved: Axes) -> None:
    """Noise over sensitivity, and how much harm it saves against even noise that is as private."""
    sizes = torch.logspace(-1, 1, 41, dtype=torch.float64)
    spreads = np.linspace(0, 2.5, 26)
    normal = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for (power, label), colour in zip(POWERS.items(), COLOURS, strict=True):
        sigma = least_harm(sizes, sizes.square() ** power, 1.0)
        noise.loglog(sizes, sigma, color=colour)
        noise.text(0.1, (1.2 if power == 1 else 1.7) * float(sigma[0]), label, color=colour)
        ratios = []
        for spread in spreads:
            s = torch.exp(spread * normal)
            h = s.square() ** power
            best = least_harm(s, h, 1.0)
            even = s.norm()  # on every number; as private
            ratios.append(float((h * best.square()).sum() / (h.sum() * even.square())))
        saved.plot(spreads, ratios, color=colour)
    dress(noise, "sensitivity s of a number", "its noise", "Least harmful noise, h = s^(2 power)")
    dress(saved, "spread of log s over the numbers", "harm / harm of even noise", "What that saves")
    saved.set_ylim(0, 1.05)


def pixels(axes: Axes, found: list[Array], title: str) -> None:
    """The scales of each pixel's weights over the last steps."""
    image = np.sqrt((np.array(found[-20:]) ** 2).mean((0, 1))).reshape(8, 8)
    axes.figure.colorbar(axes.imshow(image, cmap="viridis"), ax=axes, shrink=0.8)
    dress(axes, "", "", title)


if __name__ == "__main__":
    figure, panels = new(4)
    formula(*panels[:2])
    little_harm, _ = at_work(lambda model: dpopt(model, 0.5, clip_norm=1.0, noise=DPOPT(decay=0.95)))
    pixels(panels[2], little_harm, "DPOPT: scales of pixels")
    little_variance, _ = at_work(lambda model: adaclip(model, 0.5, clip_norm=1.0, noise=AdaClip(decay=0.95)))
    pixels(panels[3], little_variance, "AdaClip: scales of pixels")
    figure.savefig(HERE / "dpopt.png")
