"""AdaClip (Pichapati et al. 2019, "AdaCliP: adaptive clipping for private SGD"): noise of least total variance.

Let s_i^2 be the variance of number i of a gradient. Among all scales for which the divided gradient has an expected
squared norm of 1, b_i = sqrt(s_i sum_j s_j) has the least total noise variance (theorem 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.methods.released_scales import Kind, TrainingMethod, keeping_lengths, with_sgd


@dataclass(frozen=True)
class AdaClip:
    """Scales sqrt(s_i), times the factor that keeps the meaning of the clip norm.

    s_i^2 is the average of released squares, each with the variance of its noise subtracted and cut to [low, high]
    before it is averaged, as in the paper. The paper also subtracts a moving mean from every gradient; here it is zero,
    so squares take the place of variances, and theorem 2 holds for them in the same way.
    """

    decay: float = 0.9
    low: float = 1e-12
    high: float = 1.0

    name: ClassVar[str] = "adaclip"

    def __post_init__(self) -> None:
        checks.open_unit("decay", self.decay)
        if not 1e-60 <= checks.real("low", self.low) < checks.real("high", self.high) <= 1e60:
            raise InputError(f"low must be below high, both from 1e-60 to 1e60, got {self.low!r} and {self.high!r}")

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def scales(self, squares: Tensor, error: float) -> Tensor | None:
        """sqrt(s_i), scaled."""
        if not bool((squares > 0).all()):
            return None  # nothing was released yet
        return keeping_lengths(squares.pow(0.25), squares)


def adaclip(
    model: nn.Module,
    lr: float = 0.1,
    *,
    clip_norm: float,
    kind: Kind = "ellipsoid",
    noise: AdaClip = AdaClip(),
) -> TrainingMethod:
    """Noise of least variance, with steps of SGD."""
    return with_sgd(noise, model, lr, clip_norm, kind)
