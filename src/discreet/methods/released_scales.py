"""Scales that follow from releases: the geometry that ADADP, DPOPT and AdaClip share, and differ in by one rule.

A rule looks at how large each number of the released mean gradients was, noise subtracted, and says how the noise
shall be shaped. Everything here is a function of releases, of the multiplier and of public settings, so it costs
nothing, and the step stays the Gaussian mechanism that the plan says.
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
"""What gradients are clipped to: an L2 norm once they are divided by the scales, or number by number."""

_TINY = 1e-100
"""Second moments below this tell nothing."""


class Rule(Protocol):
    """How a method shapes noise.

    `decay` is that of its moving average of squares, `bounds` are what each square is cut to before it is averaged.
    """

    @property
    def name(self) -> str: ...

    @property
    def decay(self) -> float: ...

    @property
    def bounds(self) -> tuple[float, float]: ...

    def scales(self, squares: Tensor, error: float) -> Tensor | None:
        """Positive scales of shape (numbers,) from the averaged squares, float64 of the same shape, some of which may
        be negative: noise was subtracted. `error` is the standard deviation of what the noise leaves in them. None: all
        numbers alike."""


@dataclass(frozen=True, slots=True)
class TrainingMethod:
    """What `Plan` and `Training` are to be given for a method: `Plan.poisson(..., clipping=method.clipping)` and
    `Training(..., method.optimizer, data, geometry=method.geometry)`."""

    clipping: dict[str, Any]
    optimizer: torch.optim.Optimizer
    geometry: ReleasedScales | None = None


class ReleasedScales:
    """A `Geometry` over the trained parameters of `model`, by a `rule`.

    `clip_norm` keeps its meaning: with equal scales an ellipsoid is flat clipping to it, and all numbers together have
    the noise of flat clipping if the scales of an ellipsoid have a mean square of 1. A box has sides of
    clip_norm / sqrt(numbers), times such scales; its noise is then as large.

    The average of squares, after each step with its release r, scales s, noise deviation n and divisor L, is

        A = decay A + (1 - decay) clip(s^2 (r^2 - n^2) / L^2, bounds)

    which is the average of the squared noisy mean gradient minus that of the variance of its noise, with one decay.
    What the noise leaves in it has variance 2 B, where v is the mean of (s n / L)^2 over all numbers and

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
        """What the plan calls the scales."""
        return str(self.clipping["scales"])

    @property
    def clipping(self) -> dict[str, Any]:
        """The clipping that the plan of such a run has."""
        return clipping_by(self._rule.name, self._norm, self._kind)

    def scales(self) -> Mapping[str, Tensor]:
        """By name of the parameter and of its shape."""
        parts = torch.split(self._scales, [shape.numel() for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def update(self, release: Release, noise: float, divisor: float) -> None:
        """Take a release in: see the class."""
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


def floored(squares: Tensor, least: float) -> Tensor | None:
    """Averaged squares as positive second moments: at least `least`, and a millionth of their mean, in which those
    below zero count as zero; None if there is nothing but zeros."""
    positive = squares.clamp(min=0.0)
    mean = max(float(positive.mean()), least)
    return positive.clamp_(min=max(least, 1e-6 * mean)) if _TINY < mean < 1 / _TINY else None


def keeping_lengths(shape: Tensor, moments: Tensor) -> Tensor:
    """The multiple of `shape` for which a gradient with these second moments is as long in the scales as it was: the
    sum of moments / scales^2 is that of the moments."""
    ratio = (moments / shape.square()).sum() / moments.sum()
    return shape * ratio.sqrt_()


def clipping_by(method: str, clip_norm: float, kind: str) -> dict[str, Any]:
    """The clipping of a plan with the scales of a method. A box has no norm of its own, so its scales are named with
    it: a run with another one does not go with the plan."""
    if kind == "box":
        return {"kind": kind, "scales": f"{method} with clip norm {clip_norm:g}"}
    return {"kind": kind, "scales": method, "norm": clip_norm}


def checked_kind(kind: str) -> str:
    """`kind`, if it is one."""
    if kind not in ("ellipsoid", "box"):
        raise InputError(f"kind must be 'ellipsoid' or 'box', got {kind!r}")
    return kind
