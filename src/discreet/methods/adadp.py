"""ADADP (Xu et al. 2019, "An adaptive and fast convergent approach to differentially private deep learning"), in a
private form, and its two halves: ADAL with the adaptive learning rate only, ADAN with the adaptive noise only.

Line 23 of the paper's Algorithm 1 averages squares of the raw gradient and sets clipping and noise by them, which
reveals the data (`adadp_as_published`). Here squares are those of released means, their noise subtracted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from discreet.core import checks
from discreet.methods.released_scales import Kind, ReleasedScales, TrainingMethod, floored, trained_parameters, with_sgd


@dataclass(frozen=True)
class ADADP:
    """Adaptive noise: scales in proportion to the root of the average released square, E'.

    | setting   | in the paper | meaning                                                                             |
    |-----------|--------------|-------------------------------------------------------------------------------------|
    | beta      | beta         | factor of the scales; at 1 they keep the meaning of the clip norm                   |
    | decay     | gamma'       | of the average of squares                                                           |
    | threshold | G            | below this variance of sqrt(E') all scales are equal: the clipping is global        |
    | floor     | ------------ | the least second moment, in standard deviations of what noise leaves in the average |

    So numbers that do not stand out from the noise have equal scales, and clipping is global while none stands out. The
    switch between global and local clipping depends on released values only, so it is post-processing.
    """

    beta: float = 1.2
    decay: float = 0.9
    threshold: float = 0.0
    floor: float = 1.0

    name: ClassVar[str] = "adadp"
    bounds: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))

    def __post_init__(self) -> None:
        checks.positive("beta", self.beta)
        checks.open_unit("decay", self.decay)
        checks.nonnegative("threshold", self.threshold)
        checks.nonnegative("floor", self.floor)

    def scales(self, squares: Tensor, error: float) -> Tensor | None:
        """beta sqrt(E' / mean E'), or None for global clipping."""
        moments = floored(squares, self.floor * error)
        if moments is None:
            return None
        roots, mean = moments.sqrt(), float(moments.mean())
        variance = mean - float(roots.mean()) ** 2
        if not variance > max(self.threshold, 1e-12 * mean):  # or nothing but rounding
            return None
        return roots.mul_(self.beta / math.sqrt(mean))


def adadp(
    model: nn.Module,
    lr: float = 0.002,
    *,
    clip_norm: float,
    kind: Kind = "ellipsoid",
    gamma: float = 0.1,
    eps: float = 1e-4,
    noise: ADADP = ADADP(),
) -> TrainingMethod:
    """Adaptive noise and adaptive learning rate.

    The learning rate is divided by the root of an average of squares, in which the newest has the weight `gamma`
    (equation 1). That is `torch.optim.RMSprop` over releases, which adds `eps` to the root.
    """
    scales = ReleasedScales(noise, model, clip_norm, kind)
    return TrainingMethod(scales.clipping, _rmsprop(model, lr, gamma, eps), scales)


def adal(
    model: nn.Module, lr: float = 0.001, *, clip_norm: float, gamma: float = 0.1, eps: float = 1e-4
) -> TrainingMethod:
    """The adaptive learning rate alone: flat clipping, and noise of one size."""
    return TrainingMethod({"kind": "flat", "norm": clip_norm}, _rmsprop(model, lr, gamma, eps))


def adan(
    model: nn.Module,
    lr: float = 0.1,
    *,
    clip_norm: float,
    kind: Kind = "ellipsoid",
    noise: ADADP = ADADP(),
) -> TrainingMethod:
    """The adaptive noise alone, with steps of SGD."""
    return with_sgd(noise, model, lr, clip_norm, kind)


def _rmsprop(model: nn.Module, lr: float, gamma: float, eps: float) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(trained_parameters(model), lr=lr, alpha=1 - checks.open_unit("gamma", gamma), eps=eps)
