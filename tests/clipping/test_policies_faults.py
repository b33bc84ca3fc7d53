"""The battery of policies fails on every fault that is planted in one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from clips import CLIPS, GRID, apart, contributions, length
from layers import Around, Problem, Tied, criterion, typical_norm
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Group, factor, private_parameters
from discreet.clipping.engines import bookkeeping
from discreet.clipping.factor import Decision

PROBLEMS = {
    "layers": Problem(lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), (4,)),
    "sequence": Problem(lambda: Around(nn.Linear(4, 3)), (5, 4)),
    "tied": Problem(lambda: Tied(3, None), (5,), tokens=True),
}


def cases(ways: Mapping[str, object] = CLIPS) -> list[tuple[nn.Module, Tensor, Tensor, Clip]]:
    found = []
    for problem in PROBLEMS.values():
        for way in ways:
            model, inputs, targets = problem.make(4, torch.float64, 1)
            found.append((model, inputs, targets, CLIPS[way](model, 0.7 * typical_norm(model, inputs, targets))))
    return found


def check_sum() -> None:
    """The engine gives the sum of what examples add by definition."""
    for model, inputs, targets, clip in cases():
        parameters = private_parameters(model)
        parts = []
        for i in range(len(inputs)):
            loss = criterion(model(inputs[i : i + 1]), targets[i : i + 1])
            gradients = torch.autograd.grad(loss, list(parameters.values()))
            parts.append(contributions(dict(zip(parameters, gradients, strict=True)), clip))
        wanted = {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}
        for engine in ("bookkeeping", "ghost", "reference"):
            found = ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets), clip)
            assert apart(found, wanted) <= 1e-9 * len(inputs) * clip.spread


def check_sensitivity() -> None:
    """No example, alone, adds more than the clip says that it may."""
    for model, inputs, targets, clip in cases():
        for i in range(len(inputs)):
            one = ENGINES["bookkeeping"].clipped_sum(
                model, criterion, Chunk(inputs[i : i + 1], targets[i : i + 1]), clip
            )
            assert length(one) <= clip.sensitivity * (1 + 1e-9)


def check_not_finite() -> None:
    """An example whose loss is not finite adds nothing."""
    for model, inputs, targets, clip in cases():
        rest = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(inputs[:3], targets[:3]), clip)
        targets[3] = math.inf
        whole = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(inputs, targets), clip)
        assert apart(whole, rest) <= 1e-9 * clip.spread


Plant = Callable[[pytest.MonkeyPatch], None]


def cross_terms_of_tied_weights_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bookkeeping, "joined", lambda held: None)
    patch.setattr(bookkeeping, "_squares", lambda held, *_: sum(one.squares(name) for one, name in held))


def norm_of_a_group_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The sensitivity is the largest norm of a group, as if the others were not there."""

    def grouped(groups: tuple[Group, ...], grid: float) -> Clip:
        return Clip(max(group.norm for group in groups), grid, groups)

    patch.setattr(Clip, "grouped", staticmethod(grouped))


def groups_at_the_joint_norm(patch: pytest.MonkeyPatch) -> None:
    """Every group gets the norm that all may have together."""
    real = bookkeeping.decide

    def decide(clip: Clip, *rest: Mapping[str, Tensor]) -> Decision:
        return real(replace(clip, groups=tuple(replace(group, norm=clip.norm) for group in clip.groups)), *rest)

    patch.setattr(bookkeeping, "decide", decide)


def bit_without_sensitivity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Clip, "sensitivity", property(lambda self: self.norm))


def bit_of_size_two(patch: pytest.MonkeyPatch) -> None:
    real = factor._bits
    patch.setattr(factor, "_bits", lambda norms, clip: real(norms, replace(clip, bit=2 * clip.bit)))


def bit_of_an_example_that_is_not_finite(patch: pytest.MonkeyPatch) -> None:
    def bits(norms: Tensor, clip: Clip) -> Tensor | None:
        return torch.full_like(norms, -clip.bit) if clip.bit else None

    patch.setattr(factor, "_bits", bits)


def lengths_without_scales(patch: pytest.MonkeyPatch) -> None:
    real = bookkeeping._squares
    patch.setattr(bookkeeping, "_squares", lambda held, _scale, part=1: real(held, None, part))


def box_without_edges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bookkeeping, "in_box", lambda rows, scale: rows.double() / scale)


def box_with_one_coordinate(patch: pytest.MonkeyPatch) -> None:
    """The sensitivity of a box as if it had one side."""

    def boxed(scales: Mapping[str, Tensor], grid: float) -> Clip:
        return Clip(1.0, grid, scales=scales, box=True)

    patch.setattr(Clip, "boxed", staticmethod(boxed))


def gamma_that_lengthens(patch: pytest.MonkeyPatch) -> None:
    real = factor.clip_factor

    def clip_factor(norms: Tensor, clip_norm: float, terms: int = 1, gamma: float = 0.0) -> Tensor:
        return real(norms - 2 * gamma, clip_norm, terms, gamma) if gamma else real(norms, clip_norm, terms)

    patch.setattr(factor, "clip_factor", clip_factor)


FAULTS: list[tuple[Plant, Callable[[], None]]] = [
    (cross_terms_of_tied_weights_dropped, check_sum),
    (norm_of_a_group_forgotten, check_sensitivity),
    (groups_at_the_joint_norm, check_sum),
    (groups_at_the_joint_norm, check_sensitivity),
    (bit_without_sensitivity, check_sensitivity),
    (bit_of_size_two, check_sum),
    (bit_of_size_two, check_sensitivity),
    (bit_of_an_example_that_is_not_finite, check_not_finite),
    (lengths_without_scales, check_sum),
    (lengths_without_scales, check_sensitivity),
    (box_without_edges, check_sensitivity),
    (box_with_one_coordinate, check_sensitivity),
    (gamma_that_lengthens, check_sensitivity),
]


@pytest.mark.parametrize("check", [check_sum, check_sensitivity, check_not_finite])
def test_the_checks_pass(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(
    ("plant", "check"), FAULTS, ids=[f"{plant.__name__}-{check.__name__}" for plant, check in FAULTS]
)
def test_a_planted_fault_is_found(plant: Plant, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("settings", [{"bit": 1.0, "box": True}, {"box": True}, {"bit": 1.0, "groups": True}])
def test_what_does_not_go_together_is_refused(settings: dict[str, object]) -> None:
    if settings.get("groups"):
        settings = settings | {"groups": (Group(1.0, frozenset("a")),)}
    with pytest.raises(ValueError, match=r"goes with one norm|a box has scales"):
        Clip(1.0, GRID, **settings)  # type: ignore[arg-type]
