"""Private and exact paths on the Beale function: the model is a single point, moved by methods of the library.

Loads torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from discreet.clipping.clip import Clip
from discreet.clipping.factor import clipped_sum
from discreet.core.array_types import Array
from discreet.core.events import Gaussian
from discreet.core.release import Receipt, Release
from discreet.methods import ADADP, TrainingMethod, adadp
from discreet.methods.adadp_as_published import Course, Gradients, Printed, adadp_as_published


class Point(nn.Module):
    """A model whose only parameter is a point."""

    def __init__(self, start: Array) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.from_numpy(np.array(start, np.float64)))


Make = Callable[[nn.Module], TrainingMethod]


def course(
    gradients: Gradients,
    start: Array,
    make: Make,
    multiplier: float,
    generator: np.random.Generator,
    steps: int,
    lot: float = 1.0,
) -> Course:
    """The steps of a method of the library on a function given by the gradients of its examples."""
    model = Point(start)
    method = make(model)
    points, noise = [model.at.detach().numpy().copy()], []
    for step in range(steps):
        rows = {"at": torch.from_numpy(gradients(points[-1]))}
        clip = _clip(method)
        total = clipped_sum(rows, clip)["at"].numpy()
        std = multiplier * clip.sensitivity
        event = Gaussian(max(multiplier, 1e-12))
        noisy = total + std * generator.standard_normal(len(total))
        release = Release({"at": noisy}, event, Receipt("picture", 0, step, event))
        scale = np.ones(len(total)) if clip.scales is None else clip.scales["at"].numpy().copy()
        model.at.grad = torch.from_numpy(noisy * scale / lot)
        method.optimizer.step()
        if method.geometry is not None:
            method.geometry.update(release, std, lot)
        points.append(model.at.detach().numpy().copy())
        noise.append(std * scale)
    return Course(np.array(points), np.array(noise))


def _clip(method: TrainingMethod) -> Clip:
    if method.geometry is None:
        return Clip(method.clipping["norm"], 2.0**-40)
    scales = {name: scale.clone() for name, scale in method.geometry.scales().items()}
    if method.clipping["kind"] == "box":
        return Clip.boxed(scales, 2.0**-40)
    return Clip(method.clipping["norm"], 2.0**-40, scales=scales)


def beale(point: Array) -> float:
    """The Beale function; least, 0, at (3, 0.5). (The paper prints a cube in the last term.)"""
    x, y = point
    return float(sum((c - x + x * y**k) ** 2 for k, c in enumerate((1.5, 2.25, 2.625), 1)))


def beale_gradient(point: Array) -> Array:
    """Its gradient, as that of a single example: shape (1, 2)."""
    x, y = point
    parts = [(c - x + x * y**k, y**k - 1, k * x * y ** (k - 1)) for k, c in enumerate((1.5, 2.25, 2.625), 1)]
    return np.array([[sum(2 * r * a for r, a, _ in parts), sum(2 * r * b for r, _, b in parts)]])


def distance(one: Course, other: Course) -> float:
    """The mean distance of two paths, step by step."""
    return float(np.linalg.norm(one.points - other.points, axis=1).mean())


def mean_distance(paths: Callable[[float, int], Course], multiplier: float, runs: int = 50) -> float:
    """The mean distance of private paths from the path without noise."""
    exact = paths(0.0, 0)
    return float(np.mean([distance(paths(multiplier, seed), exact) for seed in range(runs)]))


@dataclass(frozen=True)
class Walk:
    """Settings of paths on the Beale function, which the paper leaves open. The learning rates `lr` (ADADP) and
    `sgd_lr` are the paper's for MNIST; with the other values here both distances agree with the printed ones."""

    start: tuple[float, float] = (1.0, 1.0)
    steps: int = 150
    clip_norm: float = 1.0
    multiplier: float = 2.15
    lr: float = 0.002
    sgd_lr: float = 0.1

    def of(self, make: Make, multiplier: float, seed: int) -> Course:
        """The path of a method of the library."""
        generator = np.random.default_rng(seed)
        return course(beale_gradient, np.array(self.start), make, multiplier, generator, self.steps)

    def adadp(self, multiplier: float, seed: int) -> Course:
        """The path of the corrected ADADP."""
        noise = ADADP(beta=1.5)
        return self.of(lambda m: adadp(m, self.lr, clip_norm=self.clip_norm, noise=noise), multiplier, seed)

    def sgd(self, multiplier: float, seed: int) -> Course:
        """Flat clipping, with steps of SGD."""
        norm = {"kind": "flat", "norm": self.clip_norm}
        return self.of(
            lambda m: TrainingMethod(norm, torch.optim.SGD(m.parameters(), lr=self.sgd_lr)), multiplier, seed
        )

    def printed(self, multiplier: float, seed: int) -> Course:
        """The path of ADADP as published."""
        settings = Printed(self.steps, multiplier, self.lr, clip_norm=self.clip_norm, beta=1.5)
        return adadp_as_published(beale_gradient, np.array(self.start), settings, np.random.default_rng(seed))


ALIKE = Walk(lr=0.02, sgd_lr=0.05)
"""With these learning rates both reach the minimum without noise."""
