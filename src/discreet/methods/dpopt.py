"""DPOPT (Xiang, Yang and Li 2019, "Differentially-private deep learning from an optimization perspective"): for the
same privacy, the noise that does the model least harm.

Noise of standard deviation sigma_i on number i is as private as noise of multiplier sigma* if sum s_i^2 / sigma_i^2 <=
1 / sigma*^2, where s_i is how far one example moves that number. Its harm is sum h_i sigma_i^2, for weights h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.methods.released_scales import Kind, TrainingMethod, floored, keeping_lengths, with_sgd


def least_harm(sensitivities: Tensor, weights: Tensor, multiplier: float) -> Tensor:
    """The sigma_i, all positive, that minimise sum h_i sigma_i^2 subject to sum s_i^2 / sigma_i^2 <= 1 / sigma*^2.

    By Cauchy and Schwarz (sum s_i sqrt(h_i))^2 <= sum h_i sigma_i^2 x sum s_i^2 / sigma_i^2, with equality for
    sigma_i^2 = sigma*^2 (s_i / sqrt(h_i)) sum_j s_j sqrt(h_j). `sensitivities` and `weights`: positive, shape (n,).
    """
    roots = weights.sqrt()
    return (sensitivities / roots * (sensitivities * roots).sum()).sqrt() * multiplier


def projected_gradient(sensitivities: Tensor, weights: Tensor, multiplier: float, steps: int = 50) -> Tensor:
    """The sigma_i of `least_harm` by projected gradient descent, as in the paper.

    In x_i = s_i^2 / sigma_i^2 the harm sum h_i s_i^2 / x_i is convex, and the feasible set is a simplex, onto which
    projection is simple. Steps follow the gradient in sqrt(x), where the curvature is about equal in all directions;
    each step is halved until it does less harm. This function is for comparison with `least_harm`, which needs no
    iteration.
    """
    costs = weights * sensitivities.square()
    budget = 1 / multiplier**2
    roots = torch.full_like(costs, (budget / len(costs)) ** 0.5)  # of x: on a sphere of this radius

    def harm(point: Tensor) -> float:
        return float((costs / point.square()).sum())

    size = 1.0
    for _ in range(steps):
        gradient = -2 * costs / roots**3
        direction = gradient - roots * (gradient @ roots) / budget  # along the sphere
        length = float(direction.norm())
        if not length > 0:
            break
        size = min(4 * size, 1.0)
        while size > 1e-18:
            moved = roots - direction * (size * budget**0.5 / length)
            if bool((moved > 0).all()):
                moved *= (budget**0.5) / moved.norm()
                if harm(moved) < harm(roots):
                    roots = moved
                    break
            size /= 2
    return sensitivities / roots


@dataclass(frozen=True)
class DPOPT:
    """Noise of least harm, with sensitivities and harm estimated from releases.

    s_i^2 is the average released square A_i with noise subtracted, as for ADADP: the expected size of number i. h_i =
    A_i^power. (The paper takes h from raw gradients, which is not private.) What comes of it:

    | power | h is a model of | scales, up to a factor |
    |-------|-----------------|------------------------|
    | -1    | steps that are divided by sqrt(A), as those of RMSProp | sqrt(A), ADADP's |
    | 0     | steps of SGD, in which all noise does the same harm | A^(1/4), AdaClip's |
    | 1/2   | curvature as AdaGrad sees it | A^(1/8) |
    | 1     | curvature by the empirical Fisher information | all equal: flat clipping |

    `floor` is that of ADADP: the least s_i^2, which bounds h as well.
    """

    power: float = 0.5
    decay: float = 0.9
    floor: float = 1.0

    name: ClassVar[str] = "dpopt"
    bounds: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))

    def __post_init__(self) -> None:
        if not -1 <= checks.real("power", self.power) <= 1:
            raise InputError(f"power must be from -1 to 1, got {self.power!r}")
        checks.open_unit("decay", self.decay)
        checks.nonnegative("floor", self.floor)

    def scales(self, squares: Tensor, error: float) -> Tensor | None:
        """`least_harm`, in the unit that keeps the meaning of the clip norm."""
        moments = floored(squares, self.floor * error)
        if moments is None:
            return None
        relative = moments / moments.mean()
        return keeping_lengths(least_harm(relative.sqrt(), relative**self.power, 1.0), relative)


def dpopt(
    model: nn.Module,
    lr: float = 0.1,
    *,
    clip_norm: float,
    kind: Kind = "ellipsoid",
    noise: DPOPT = DPOPT(),
) -> TrainingMethod:
    """Least harmful noise, with steps of SGD."""
    return with_sgd(noise, model, lr, clip_norm, kind)
