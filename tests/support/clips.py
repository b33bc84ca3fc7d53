"""Every way to clip, for a given model: what the batteries run engines and rules with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from discreet.clipping import BIT, Clip, Group, private_parameters

GRID = 2.0**-30

MakeClip = Callable[[nn.Module, float], Clip]
"""From a model and a typical length of its gradients to a clip."""


def scales_of(model: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """Positive scales over three orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.exp(3.0 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        for name, parameter in private_parameters(model).items()
    }


def _typical(model: nn.Module, norm: float) -> float:
    """A length for gradients that were divided by the scales, of which some are clipped."""
    return norm / float(torch.cat([scale.flatten() for scale in scales_of(model).values()]).median())


def flat(model: nn.Module, norm: float) -> Clip:
    return Clip(0.5 * norm, GRID)


def by_parameter(model: nn.Module, norm: float) -> Clip:
    """Each parameter a group of its own, with norms that differ."""
    names = list(private_parameters(model))
    groups = tuple(Group(norm * (0.2 + 0.1 * place), frozenset([name])) for place, name in enumerate(names))
    return Clip.grouped(groups, GRID)


def in_two_groups(model: nn.Module, norm: float) -> Clip:
    """Every other parameter in the first group, the others in the second, if there are others."""
    names = list(private_parameters(model))
    parts = [(0.4 * norm, frozenset(names[::2])), (0.1 * norm, frozenset(names[1::2]))]
    return Clip.grouped(tuple(Group(*part) for part in parts if part[1]), GRID)


def automatic(model: nn.Module, norm: float) -> Clip:
    return Clip(0.7, GRID, gamma=0.01 * norm)


def with_bit(model: nn.Module, norm: float) -> Clip:
    return Clip(norm, GRID, bit=0.3 * norm)  # `norm` is the length of the first gradient, so its bit is on the ramp


def ellipsoid(model: nn.Module, norm: float) -> Clip:
    return Clip(0.5 * _typical(model, norm), GRID, scales=scales_of(model))


def box(model: nn.Module, norm: float) -> Clip:
    scales = {name: scale * (0.2 * norm) for name, scale in scales_of(model).items()}
    return Clip.boxed(scales, GRID)


CLIPS: dict[str, MakeClip] = {
    "flat": flat,
    "by parameter": by_parameter,
    "in two groups": in_two_groups,
    "automatic": automatic,
    "with bit": with_bit,
    "ellipsoid": ellipsoid,
    "box": box,
}


def contributions(rows: Mapping[str, Tensor], clip: Clip) -> dict[str, Tensor]:
    """What one example adds to the sum, by name, from its gradient: the definition, in plain steps and without any of
    the library's code. All zero for a gradient that is not finite."""
    rows = {name: row.double() for name, row in rows.items()}
    zero = {name: torch.zeros_like(row) for name, row in rows.items()}
    bit = {BIT: torch.zeros(1, dtype=torch.float64)} if clip.bit else {}
    if not all(bool(torch.isfinite(row).all()) for row in rows.values()):
        return zero | bit
    if clip.scales is not None:
        rows = {name: row / clip.scales[name] for name, row in rows.items()}
    if clip.box:
        return {name: row.clamp(-1.0, 1.0) for name, row in rows.items()}
    groups = [(group.norm, group.names) for group in clip.groups] or [(clip.norm, frozenset(rows))]
    found: dict[str, Tensor] = {}
    for norm, names in groups:
        length = torch.cat([rows[name].flatten() for name in rows if name in names]).norm()
        factor = norm / (length + clip.gamma) if clip.gamma else min(1.0, norm / float(length)) if length else 1.0
        found |= {name: rows[name] * factor for name in rows if name in names}
        if clip.bit:
            edge = float((norm - length) / (norm / 8))  # 1/2 to -1/2 over an eighth of the norm
            bit[BIT] += 2 * clip.bit * max(-0.5, min(0.5, edge))
    return {name: found[name] for name in rows} | bit


def length(tensors: Mapping[str, Tensor]) -> float:
    """The L2 norm of all together."""
    return float(torch.cat([tensor.double().flatten() for tensor in tensors.values()]).norm())


def apart(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """How far two sums lie apart."""
    assert set(one) == set(other)
    return length({name: one[name].double() - other[name].double() for name in one})
