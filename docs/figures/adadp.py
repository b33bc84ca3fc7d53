"""Pictures for docs/methods: an example of Lemma 1, paths on the Beale function, scales at work, and the leak of ADADP
as published.

    python docs/figures/adadp.py

Beside itself it writes `adadp-lemma.png`, `adadp-beale.png`, `adadp-scales.png` and `adadp-leak.png`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from adadp_paths import ALIKE, LEMMA, Walk, corrected_path, mean_distance, movement, published_path, similarity
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import nn

from discreet.core.array_types import Array
from discreet.data.sets.digits import digits
from discreet.methods import ADADP, TrainingMethod, adadp
from discreet.plan import Plan
from discreet.randomness import TestStream
from discreet.training import RunOptions, Training

HERE = Path(__file__).parent
COLOURS = ("#0b5394", "#c0392b", "#7a6a00", "#38761d")


def new(columns: int) -> tuple[Figure, list[Axes]]:
    """A row of axes."""
    figure = Figure(figsize=(4.4 * columns, 3.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(np.ravel(figure.subplots(1, columns)))


def dress(axes: Axes, x: str, y: str, title: str) -> None:
    """Labels, and no box."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def lemma_picture() -> None:
    """Noisy results of the example of Lemma 1."""
    figure, panels = new(3)
    for axes, (name, noise), colour in zip(panels, LEMMA.items(), COLOURS, strict=False):
        generator = np.random.default_rng(0)
        noisy = np.array([10.0, 5.0]) + generator.standard_normal((400, 2)) * noise
        axes.scatter(*noisy.T, s=6, color=colour, alpha=0.5, linewidths=0)
        axes.annotate("", (10, 5), (0, 0), arrowprops={"arrowstyle": "->", "linewidth": 1.6})
        mean = similarity(noise, np.random.default_rng(1), 1_000_000)
        dress(axes, "", "", f"{name}: noise {noise[0]:.4g} and {noise[1]:.4g}, cosine {mean:.2f}")
        axes.set_xlim(-60, 80)
        axes.set_ylim(-70, 80)
    figure.savefig(HERE / "adadp-lemma.png")


def beale_picture() -> None:
    """Private and exact paths on the Beale function: with the learning rates of the paper, and with others."""
    figure, panels = new(4)
    x, y = np.meshgrid(np.linspace(0, 4.5, 161), np.linspace(-1.5, 1.5, 121))
    heights = np.log1p(sum((c - x + x * y**k) ** 2 for k, c in enumerate((1.5, 2.25, 2.625), 1)))
    walk = Walk()
    shown = [
        (f"SGD, rate {walk.sgd_lr:g}", walk.sgd),
        (f"ADADP as published, rate {walk.lr:g}", walk.printed),
        (f"ADADP, corrected, rate {walk.lr:g}", walk.adadp),
        (f"ADADP, corrected, rate {ALIKE.lr:g}", ALIKE.adadp),
    ]
    for axes, (name, paths), colour in zip(panels, shown, COLOURS, strict=True):
        axes.contour(x, y, heights, 18, colors="#d4d8dd", linewidths=0.7)
        for points, style in ((paths(0.0, 0).points, "k"), (paths(walk.multiplier, 0).points, colour)):
            axes.plot(*points.T, color=style, linewidth=1.3)
        axes.plot(3, 0.5, "*", color="#7a6a00", markersize=10)
        axes.set_xlim(0, 4.5)
        axes.set_ylim(-1.5, 1.5)
        dress(axes, "", "", f"{name}: {mean_distance(paths, walk.multiplier):.2f} apart")
    figure.savefig(HERE / "adadp-beale.png")


def at_work(make: Callable[[nn.Module], TrainingMethod], multiplier: float = 2.0) -> tuple[list[Array], Array]:
    """The scales of a linear model of digits, step by step, shape (10, 64) each; and which pixels are ever used."""
    rows = digits()
    inputs, targets = rows.train[0] / 16, rows.train[1]
    torch.manual_seed(0)
    model = nn.Linear(64, 10)
    method = make(model)
    plan = Plan.poisson(
        population=1437, batch=479, steps=60, delta=1e-4, clipping=method.clipping, noise_multiplier=multiplier
    )
    assert method.geometry is not None
    found, loss = [], nn.CrossEntropyLoss()
    with TemporaryDirectory() as folder:
        training = Training(
            plan,
            model,
            loss,
            method.optimizer,
            (inputs, targets),
            geometry=method.geometry,
            run=RunOptions(Path(folder) / "run", stream=TestStream(0)),
        )
        with training.session() as session:
            while not session.finished:
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(loss, chunk)
                found.append(method.geometry.scales()["weight"].numpy().copy())
    return found, (inputs > 0).float().mean(0).numpy()


def scales_picture() -> None:
    """Which pixels get much noise and which little, and how scales spread over the steps."""
    figure, (ink, pixels, spread) = new(3)
    found, used = at_work(lambda model: adadp(model, 0.01, clip_norm=1.0, noise=ADADP(decay=0.95)))
    scales = np.array(found)
    last = np.sqrt((scales[-20:] ** 2).mean((0, 1))).reshape(8, 8)
    for axes, image, title in (
        (ink, used.reshape(8, 8), "How often a pixel has ink"),
        (pixels, last, "Scale of its weights, root mean square"),
    ):
        figure.colorbar(axes.imshow(image, cmap="viridis"), ax=axes, shrink=0.8)
        dress(axes, "", "", title)
    least = scales.reshape(len(scales), -1).min(1)  # where the floor is
    for share, colour in zip((0.5, 0.9, 0.99), COLOURS, strict=False):
        line = np.quantile(scales.reshape(len(scales), -1), share, axis=1)
        at_floor = "half or more: the floor" if np.allclose(line, least) else f"{100 * share:g} % are below"
        spread.plot(np.arange(1, len(line) + 1), line, color=colour)
        spread.text(len(line), max(line[-30:]) + 0.05, at_floor, ha="right", color=colour)
    spread.set_ylim(0, 1.1 * spread.get_ylim()[1])
    dress(spread, "step", "scale", "All scales of the weights")
    figure.savefig(HERE / "adadp-scales.png")


def leak_picture() -> None:
    """How far the member's number moved, in many runs with and without the member."""
    figure, panels = new(2)
    for axes, (name, paths) in zip(
        panels, {"as published": published_path, "corrected": corrected_path}.items(), strict=True
    ):
        moved = [[movement(paths(member, seed)) for seed in range(200)] for member in (True, False)]
        bins = np.linspace(0, max(map(max, moved)), 41)
        for each, colour, label in zip(moved, COLOURS[1::-1], ("with the member", "without"), strict=True):
            axes.hist(each, bins=bins, color=colour, alpha=0.55, label=label)
        axes.legend(frameon=False)
        least = f"{min(moved[0]):.1g} or more with, {max(moved[1]):.2g} or less without"
        dress(axes, "how far the third number moved", "runs", f"ADADP {name}: {least}")
    figure.savefig(HERE / "adadp-leak.png")


if __name__ == "__main__":
    lemma_picture()
    beale_picture()
    scales_picture()
    leak_picture()
