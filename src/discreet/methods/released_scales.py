"""Scales that follow from releases: the common geometry of ADADP, DPOPT and AdaClip, which differ by one rule.

A rule shapes the noise from the sizes of the numbers in released mean gradients, noise subtracted. Everything here is a
function of releases, of the multiplier and of public settings, so it costs nothing, and the step stays the plan's
Gaussian mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.release import Release

Kind = Literal["ellipsoid", "box"]
"""How gradients are clipped after division by the scales: to an L2 norm, or number by number."""

_TINY = 1e-100
"""Second moments below this are treated as zero."""


class Rule(Protocol):
    """A method's rule to shape noise.

    `decay`: of its moving average of squares. `bounds`: each square is clipped to them before it is averaged.
    """

    @property
    def name(self) -> str: ...

    @property
    def decay(self) -> float: ...

    @property
    def bounds(self) -> tuple[float, float]: ...

    def scales(self, squares: Tensor, error: float) -> Tensor | None:
        """Positive scales of shape (numbers,) from the averaged squares, float64 of the same shape. Some squares may be
        negative, because noise was subtracted; `error` is the standard deviation of their remaining noise. None stands
        for equal scales."""


@dataclass(frozen=True, slots=True)
class TrainingMethod:
    """The arguments of `Plan` and `Training` for a method: `Plan.poisson(..., clipping=method.clipping)` and
    `Training(..., method.optimizer, data, geometry=method.geometry)`."""

    clipping: dict[str, Any]
    optimizer: torch.optim.Optimizer
    geometry: ReleasedScales | None = None


class ReleasedScales:
    """A `Geometry` over the trained parameters of `model`, by a `rule`.

    `clip_norm` keeps its meaning: with equal scales an ellipsoid is flat clipping to it, and if the scales of an
    ellipsoid have a mean square of 1, the total noise is that of flat clipping. A box has sides of clip_norm /
    sqrt(numbers), times such scales; its total noise is the same.

    The average of squares, after each step with its release r, scales s, noise deviation n and divisor L, is

        A = decay A + (1 - decay) clip(s^2 (r^2 - n^2) / L^2, bounds)

    which is the average of the squared noisy mean gradient less the average variance of its noise, with one decay. Its
    remaining noise has variance 2 B, where v is the mean of (s n / L)^2 over all numbers and

        B = decay^2 B + (1 - decay)^2 v^2
    """

    def __init__(self, rule: Rule, model: nn.Module, clip_norm: float, kind: Kind = "ellipsoid") -> None:
        self._rule, self._kind = rule, checked_kind(kind)
        self._norm = checks.positive("clip_norm", clip_norm)
        trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
        if not trained:
            raise InputError(f"{rule.name}: the model has no parameter with requires_grad=True")
        self._shapes = {name: one.shape for name, one in trained.items()}
        device = next(iter(trained.values())).device
        numbers = sum(one.numel() for one in trained.values())
        self._size = self._norm / math.sqrt(numbers) if kind == "box" else 1.0
        self._squares = torch.zeros(numbers, dtype=torch.float64, device=device)
        self._scales = torch.full_like(self._squares, self._size)
        self._error = 0.0
        self.shaped = False

    @property
    def name(self) -> str:
        """The plan's name for the scales."""
        return str(self.clipping["scales"])

    @property
    def clipping(self) -> dict[str, Any]:
        """The clip rule for the plan of such a run."""
        return clipping_by(self._rule.name, self._norm, self._kind)

    def scales(self) -> Mapping[str, Tensor]:
        """The scales by parameter name, in the parameters' shapes."""
        parts = torch.split(self._scales, [shape.numel() for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def update(self, release: Release, noise: float, divisor: float) -> None:
        """Update the averages from a release: see the class."""
        parts = [torch.from_numpy(release.tensors[name]).view(-1) for name in self._shapes]
        released = torch.cat(parts).to(self._squares.device)
        squares = released.square_().sub_(noise**2).mul_(self._scales).mul_(self._scales).div_(divisor**2)
        low, high = self._rule.bounds
        if math.isfinite(low) or math.isfinite(high):
            squares.clamp_(low, high)
        keep, fresh = self._rule.decay, 1 - self._rule.decay
        variance = (noise / divisor) ** 2 * float(self._scales.square().mean())
        self._error = math.hypot(keep * self._error, fresh * math.sqrt(2) * variance)
        self._squares.lerp_(squares, fresh)
        self._shape()

    def state_dict(self) -> dict[str, Any]:
        """The averages; the scales follow from them."""
        return {"squares": self._squares.clone(), "error": self._error, "learned": self.name}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state; `InputError` if it is of another method or model."""
        squares = state["squares"]
        if state["learned"] != self.name or squares.shape != self._squares.shape:
            raise InputError(
                f"the run was started with the scales of {state['learned']!r} for {len(squares)} numbers, "
                f"not with those of {self.name!r} for {len(self._squares)}; go on with the same"
            )
        self._squares.copy_(squares)
        self._error = float(state["error"])
        if bool((self._squares != 0).any()):
            self._shape()

    def _shape(self) -> None:
        found = self._rule.scales(self._squares, self._error)
        self.shaped = found is not None
        if found is None:
            self._scales.fill_(self._size)
        else:
            torch.mul(found, self._size, out=self._scales)


def with_sgd(rule: Rule, model: nn.Module, lr: float, clip_norm: float, kind: Kind) -> TrainingMethod:
    """The scales of a rule, with steps of SGD."""
    scales = ReleasedScales(rule, model, clip_norm, kind)
    return TrainingMethod(scales.clipping, torch.optim.SGD(trained_parameters(model), lr=lr), scales)


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that an optimizer is given."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def floored(squares: Tensor, least: float) -> Tensor | None:
    """Averaged squares as positive second moments: at least `least`, and at least a millionth of their mean (negative
    squares count as zero in it); None if all are zero."""
    positive = squares.clamp(min=0.0)
    mean = max(float(positive.mean()), least)
    return positive.clamp_(min=max(least, 1e-6 * mean)) if _TINY < mean < 1 / _TINY else None


def keeping_lengths(shape: Tensor, moments: Tensor) -> Tensor:
    """The multiple of `shape` that keeps the expected length of a gradient with these second moments: the sum of
    moments / scales^2 equals the sum of the moments."""
    ratio = (moments / shape.square()).sum() / moments.sum()
    return shape * ratio.sqrt_()


def clipping_by(method: str, clip_norm: float, kind: str) -> dict[str, Any]:
    """The clip rule of a plan with the scales of a method. Box clipping has no norm of its own, so the name of its
    scales contains it, and a run with another norm is refused."""
    if kind == "box":
        return {"kind": kind, "scales": f"{method} with clip norm {clip_norm:g}"}
    return {"kind": kind, "scales": method, "norm": clip_norm}


def checked_kind(kind: str) -> str:
    """`kind`; `InputError` if there is no such kind."""
    if kind not in ("ellipsoid", "box"):
        raise InputError(f"kind must be 'ellipsoid' or 'box', got {kind!r}")
    return kind
