"""How a plan says that gradients are clipped: one frozen record for each policy, as it stands in plan.yaml.

The noise multiplier of an event is noise std / sensitivity, whatever the policy. So a policy changes what is released,
never what it costs:

| kind      | each unit's gradient                               | sensitivity of the sum                        |
|-----------|----------------------------------------------------|-----------------------------------------------|
| flat      | scaled down to `norm`                              | norm                                          |
| scheduled | the same, with a norm for each step                | that of the step                              |
| automatic | scaled by norm / (length + gamma)                  | norm                                          |
| per_layer | each module's parameters to `norm`                 | norm x sqrt(modules that own parameters)      |
| groups    | each group of parameters to its norm               | root of the sum of the squared norms          |
| adaptive  | scaled down to C_t, which follows a quantile       | C_t / sqrt(1 - (z/s)^2): see `AdaptiveClipping` |
| ellipsoid | divided by public scales, then to `norm`           | norm, of what was divided                     |
| box       | each number to its public scale                    | sqrt(numbers), of what was divided            |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from discreet.accounting.schedules import Schedule
from discreet.core.errors import InputError
from discreet.plan.pydantic_base import Frozen, explain
from discreet.plan.sampling import Count

ClipNorm = Annotated[float, Field(ge=1e-30, le=1e30)]


class _Clipping(Frozen):
    """What the kinds share."""

    def check(self, steps: int, multipliers: Iterable[float]) -> None:
        """Refuse a plan of so many steps, with noise multipliers among these, that cannot be clipped like this."""

    @property
    def first_norm(self) -> float | None:
        """The norm that clipping starts with, where there is one for all parameters."""
        return None


class FlatClipping(_Clipping):
    """One unit's gradient, all parameters together, is scaled down to L2 norm at most `norm`."""

    kind: Literal["flat"] = "flat"
    norm: ClipNorm

    @property
    def first_norm(self) -> float:
        return self.norm


class NormPhase(Frozen):
    """`steps` consecutive steps with one clip norm."""

    norm: ClipNorm
    steps: Count


class ScheduledClipping(_Clipping):
    """Flat clipping to a norm that was fixed for each step beforehand; the noise follows the norm."""

    kind: Literal["scheduled"] = "scheduled"
    phases: Annotated[tuple[NormPhase, ...], Field(min_length=1)]

    def check(self, steps: int, multipliers: Iterable[float]) -> None:
        covered = sum(phase.steps for phase in self.phases)
        if covered != steps:
            raise InputError(f"the phases of the clip norm cover {covered} steps, but the plan has {steps}")

    def norm_at(self, step: int) -> float:
        """The clip norm of a charged step, counted from 0."""
        for phase in self.phases:
            if step < phase.steps:
                return phase.norm
            step -= phase.steps
        raise InputError(f"the phases of the clip norm end {step + 1} steps before this one")

    @property
    def first_norm(self) -> float:
        return self.phases[0].norm


class AutomaticClipping(_Clipping):
    """One unit's gradient g, all parameters together, becomes norm x g / (||g|| + gamma), which is shorter than `norm`.

    Bu et al. 2023, "Automatic clipping: differentially private deep learning made easier and stronger" (AUTO-S). With
    it the norm only scales the learning rate.
    """

    kind: Literal["automatic"] = "automatic"
    norm: ClipNorm = 1.0
    gamma: Annotated[float, Field(ge=1e-8, le=1e30)] = 0.01

    @model_validator(mode="after")
    def _factors_stay_in_range(self) -> AutomaticClipping:
        if not self.norm / self.gamma <= 1e30:
            raise ValueError(f"norm / gamma must be at most 1e30, got {self.norm / self.gamma:g}")
        return self

    @property
    def first_norm(self) -> float:
        return self.norm


class PerLayerClipping(_Clipping):
    """The parameters of each module that owns some are scaled down together to L2 norm at most `norm`."""

    kind: Literal["per_layer"] = "per_layer"
    norm: ClipNorm

    def groups(self, names: Sequence[str]) -> dict[str, tuple[float, list[str]]]:
        """By module: its norm and the names of its parameters."""
        found: dict[str, tuple[float, list[str]]] = {}
        for name in names:
            found.setdefault(name.rpartition(".")[0], (self.norm, []))[1].append(name)
        return found


class GroupClipping(_Clipping):
    """Each group of parameters is scaled down to its own L2 norm. `norms` is by pattern: `{"0.*": 1.0, "2.*": 0.5}`.

    `*` in a pattern stands for anything, dots too. Every parameter must be in exactly one group.
    """

    kind: Literal["groups"] = "groups"
    norms: Annotated[dict[str, ClipNorm], Field(min_length=1)]

    def __hash__(self) -> int:
        return hash((self.kind, frozenset(self.norms.items())))

    def groups(self, names: Sequence[str]) -> dict[str, tuple[float, list[str]]]:
        """By pattern: its norm and the names of its parameters. `InputError` unless the groups part the parameters."""
        for name in names:
            inside = [pattern for pattern in self.norms if fnmatchcase(name, pattern)]
            if len(inside) != 1:
                where = f"in {len(inside)} groups ({', '.join(inside)})" if inside else "in no group"
                raise InputError(f"clipping: parameter {name!r} is {where}; every parameter must be in exactly one")
        found = {
            pattern: (norm, [name for name in names if fnmatchcase(name, pattern)])
            for pattern, norm in self.norms.items()
        }
        for pattern, (_, inside) in found.items():
            if not inside:
                raise InputError(f"clipping: no parameter is in the group {pattern!r}; it would only add noise")
        return found


class AdaptiveClipping(_Clipping):
    """Flat clipping to C_t, which follows a quantile of the lengths of gradients: Andrew et al. 2021, "Differentially
    private learning with adaptive clipping".

    Each step releases, beside the sum of gradients clipped to C_t, how many of them were shorter than C_t: the sum b of
    centred bits, 1/2 for a unit whose gradient is shorter and -1/2 for another. Then C_{t+1} = C_t exp(-rate (b /
    expected batch + 1/2 - quantile)), within [floor, cap]. Both are one release: the bit is one more coordinate of the
    sum, from -h to h, and the noise is the same on every coordinate. With noise multiplier z of the event and
    `bit_multiplier` s (noise std / 1/2 of the bit), the gradient alone has z_g = (z^-2 - s^-2)^(-1/2), its noise is
    N = z_g C_t, and h = N / s makes the bit's noise s h. The sensitivity of both together is sqrt(C_t^2 + h^2) = N / z,
    so the event is a Gaussian one of multiplier z. s must be above z; the paper takes s = expected batch / 10.

    Why the accounting stays that of a fixed plan: given all earlier releases, C_t and h are constants, and the step is
    a Gaussian mechanism whose noise is z times its sensitivity. Divided by that sensitivity it is dominated by the
    same pair of distributions whatever C_t is. What dominates each step given the past dominates their adaptive
    composition (Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via characteristic function",
    theorem 10), as for the weights, which depend on the past in the same way. Updating C_t is post-processing.

    A unit whose gradient is not finite has a gradient and a bit of zero, so it moves neither by more than any other.
    Within 1/16 of C_t on either side the bit falls on a straight line from 1/2 to -1/2: see `clipping.factor`.
    """

    kind: Literal["adaptive"] = "adaptive"
    initial: ClipNorm
    bit_multiplier: Annotated[float, Field(gt=0)]
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    rate: Annotated[float, Field(gt=0, le=10)] = 0.2
    floor: ClipNorm = 1e-4
    cap: ClipNorm = 1e4

    @model_validator(mode="after")
    def _within_bounds(self) -> AdaptiveClipping:
        if not self.floor <= self.initial <= self.cap:
            raise ValueError(f"initial must be from floor ({self.floor:g}) to cap ({self.cap:g}), got {self.initial:g}")
        return self

    def check(self, steps: int, multipliers: Iterable[float]) -> None:
        largest = max(multipliers)
        if not self.bit_multiplier > largest:
            raise InputError(
                f"the bit_multiplier of adaptive clipping ({self.bit_multiplier:g}) must be above the noise multiplier "
                f"({largest:g}), of which it takes a part; a tenth of the expected batch is usual"
            )

    def bit(self, norm: float, multiplier: float) -> float:
        """h, the size of the bit beside gradients of clip norm `norm` in an event with this multiplier."""
        self.check(1, [multiplier])
        return norm * multiplier / math.sqrt((self.bit_multiplier - multiplier) * (self.bit_multiplier + multiplier))

    def after(self, norm: float, bits: float, expected_batch: float) -> float:
        """C_{t+1} from C_t = `norm` and the released sum of centred bits."""
        log = math.log(norm) - self.rate * (bits / expected_batch + 0.5 - self.quantile)
        bounded = math.exp(min(max(log, math.log(self.floor)), math.log(self.cap)))
        return min(max(bounded, self.floor), self.cap)

    @property
    def first_norm(self) -> float:
        return self.initial


class _Geometry(_Clipping):
    """What the kinds share that clip in public scales, one for each number of the parameters.

    `scales` names what gives them: `fixed` for constants, or a method that computes them from releases. The plan does
    not hold them.
    """

    scales: str = "fixed"


class EllipsoidClipping(_Geometry):
    """One unit's gradient, divided by the scales, is scaled down to L2 norm at most `norm`; noise has their shape."""

    kind: Literal["ellipsoid"] = "ellipsoid"
    norm: ClipNorm = 1.0


class BoxClipping(_Geometry):
    """Each number of one unit's gradient is clipped to its scale (ADADP's local clipping); noise has their shape."""

    kind: Literal["box"] = "box"


def _from_shortcut(value: object) -> object:
    """`{"per_layer": C}` and `{"groups": {pattern: C}}`, for what they are short for."""
    if isinstance(value, Mapping) and set(value) == {"per_layer"}:
        return {"kind": "per_layer", "norm": value["per_layer"]}
    if isinstance(value, Mapping) and set(value) == {"groups"}:
        return {"kind": "groups", "norms": value["groups"]}
    return value


AnyClipping = (
    FlatClipping
    | ScheduledClipping
    | AutomaticClipping
    | PerLayerClipping
    | GroupClipping
    | AdaptiveClipping
    | EllipsoidClipping
    | BoxClipping
)

Clipping = Annotated[AnyClipping, Field(discriminator="kind"), BeforeValidator(_from_shortcut)]

_READER: TypeAdapter[AnyClipping] = TypeAdapter(Clipping)


def as_clipping(clip_norm: object, clipping: object, steps: int, epoch: float) -> AnyClipping:
    """The clipping of a plan from either of two arguments.

    `clip_norm`: a number, a list of (norm, steps), or a schedule per epoch (of `epoch` steps) or per step. `clipping`:
    a record of this module, or a mapping with the same keys.
    """
    if (clip_norm is None) == (clipping is None):
        raise InputError("plan: give either clip_norm or clipping")
    if isinstance(clip_norm, Schedule):
        clip_norm = clip_norm.phases(steps, 1 / epoch)
    value: Any = clipping
    if isinstance(clip_norm, Sequence) and not isinstance(clip_norm, str):
        if any(not isinstance(phase, Sequence) or len(phase) != 2 for phase in clip_norm):
            raise InputError("plan: clip_norm must be a number or a list of (norm, steps)")
        value = {"kind": "scheduled", "phases": [{"norm": norm, "steps": count} for norm, count in clip_norm]}
    elif clip_norm is not None:
        value = {"kind": "flat", "norm": clip_norm}
    try:
        return _READER.validate_python(value)
    except ValidationError as error:
        kinds = {kind.model_fields["kind"].default: kind for kind in get_args(AnyClipping)}
        kind = kinds.get(next(iter(error.errors()[0]["loc"]), None), FlatClipping)
        raise InputError(f"plan: clipping.{explain(error, kind)}") from None
