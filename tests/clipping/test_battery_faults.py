"""The battery fails on every fault that is planted in a rule or in the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from layers import Around, Pooled, Problem, Tied, criterion, difference, typical_norm
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, factor
from discreet.clipping.capture import backward, capture
from discreet.clipping.engines import bookkeeping, ghost
from discreet.clipping.rules import base, embedding, linear

PROBLEMS = {
    "sequence": Problem(lambda: Around(nn.Linear(4, 3)), (5, 4)),
    "flat": Problem(lambda: Around(nn.Linear(4, 3)), (4,)),
    "padded": Problem(lambda: Around(nn.Embedding(6, 3, 2)), (8,), tokens=True),
    "pooled": Problem(lambda: Pooled(3, None), (8,), tokens=True),
    "tied": Problem(lambda: Tied(3, None), (5,), tokens=True),
}


def check_agreement(engine: str = "bookkeeping") -> None:
    for problem in PROBLEMS.values():
        model, inputs, targets = problem.make(5, torch.float32, 1)
        for share in (0.1, 0.8):
            norm = share * typical_norm(model, inputs, targets)
            assert difference(engine, model, inputs, targets, norm) <= 1e-5


def check_bound(engine: str = "bookkeeping") -> None:
    """No example moves a sum by more than the clip norm, also beside an infinite one."""
    clipped_sum = ENGINES[engine].clipped_sum
    for problem in PROBLEMS.values():
        for value in (None, float("inf")):
            model, inputs, targets = problem.make(5, torch.float32, 1)
            clip = Clip(0.3 * typical_norm(model, inputs, targets), 2.0**-30)
            rest = clipped_sum(model, criterion, Chunk(inputs[:4], targets[:4]), clip)
            if value is not None:
                (targets if problem.tokens else inputs)[4] = value
            whole = clipped_sum(model, criterion, Chunk(inputs, targets), clip)
            moved = sum(float((whole[key] - rest[key]).square().sum()) for key in whole) ** 0.5
            assert moved <= clip.norm * (1 + 1e-5)


def check_hooks(engine: str = "bookkeeping") -> None:
    model, inputs, targets = PROBLEMS["flat"].make(5, torch.float32, 1)
    ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets), Clip(1.0, 2.0**-30))
    assert not any(module._forward_hooks for module in model.modules())


Plant = Callable[[pytest.MonkeyPatch], None]
Check = Callable[[str], None]


def bias_of_one_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(linear.LinearRule, "_bias_rows", lambda self, gradient: gradient[:, 0])


def padding_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(embedding.EmbeddingRule, "_without", lambda self, padding: None)


def repeats_not_added(patch: pytest.MonkeyPatch) -> None:
    def token_squares(tokens: Tensor, values: Tensor, size: int) -> Tensor:
        found = [row[np.unique(token, return_index=True)[1]] for token, row in zip(tokens, values, strict=True)]
        return torch.stack([row.double().square().sum() for row in found])

    patch.setattr(embedding, "token_squares", token_squares)


def clip_norm_stored_twice(patch: pytest.MonkeyPatch) -> None:
    for module in (bookkeeping, ghost):
        real = module.decide
        patch.setattr(
            module, "decide", lambda clip, *rest, real=real: real(replace(clip, norm=1.05 * clip.norm), *rest)
        )


def half_precision_norms(patch: pytest.MonkeyPatch) -> None:
    def squared_norms(rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), -1).bfloat16().square().sum(1).double()

    for module in (base, linear, embedding):
        patch.setattr(module, "squared_norms", squared_norms)


def cross_term_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bookkeeping, "joined", lambda held: None)
    patch.setattr(bookkeeping, "_squares", lambda held, _: sum(one.squares(name) for one, name in held))


def loss_divided_before_clipping(patch: pytest.MonkeyPatch) -> None:
    real = capture.summed_loss
    patch.setattr(capture, "summed_loss", lambda c, output, targets: real(c, output, targets) / len(targets))


def infinities_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(base.Rule, "drop", lambda self, unusable: None)


def hook_left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("torch.utils.hooks.RemovableHandle.remove", lambda self: None)


def factor_of_one(patch: pytest.MonkeyPatch) -> None:
    real = factor.decide

    def decide(clip: Clip, squares: dict[str, Tensor], sizes: dict[str, int]) -> factor.Decision:
        decision = real(clip, squares, sizes)
        return replace(decision, weights={name: torch.ones_like(value) for name, value in decision.weights.items()})

    for module in (bookkeeping, ghost):
        patch.setattr(module, "decide", decide)


def gradients_of_one_output_only(patch: pytest.MonkeyPatch) -> None:
    """Calls that share parameters are measured one by one."""
    patch.setattr(backward, "_groups", lambda calls: [[call] for call in calls])


def weights_left_out(patch: pytest.MonkeyPatch) -> None:
    real = ghost.total_of
    patch.setattr(
        ghost,
        "total_of",
        lambda held, parameter, weights, *more: real(held, parameter, torch.ones_like(weights), *more),
    )


FAULTS: list[tuple[Plant, Check]] = [
    (bias_of_one_position, check_agreement),
    (padding_counted, check_agreement),
    (repeats_not_added, check_agreement),
    (clip_norm_stored_twice, check_agreement),
    (clip_norm_stored_twice, check_bound),
    (half_precision_norms, check_agreement),
    (cross_term_dropped, check_agreement),
    (gradients_of_one_output_only, check_agreement),
    (loss_divided_before_clipping, check_agreement),
    (infinities_kept, check_bound),
    (hook_left_behind, check_hooks),
    (factor_of_one, check_bound),
]


FAULTS_OF_GHOST: list[tuple[Plant, Check]] = [
    (half_precision_norms, check_agreement),
    (clip_norm_stored_twice, check_agreement),
    (clip_norm_stored_twice, check_bound),
    (cross_term_dropped, check_agreement),
    (gradients_of_one_output_only, check_agreement),
    (infinities_kept, check_bound),
    (weights_left_out, check_bound),
    (hook_left_behind, check_hooks),
    (factor_of_one, check_bound),
]

ALL = [("bookkeeping", *fault) for fault in FAULTS] + [("ghost", *fault) for fault in FAULTS_OF_GHOST]


@pytest.mark.parametrize("check", [check_agreement, check_bound, check_hooks])
@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_the_checks_pass(engine: str, check: Check) -> None:
    check(engine)


@pytest.mark.parametrize(
    ("engine", "plant", "check"), ALL, ids=[f"{e}-{plant.__name__}-{check.__name__}" for e, plant, check in ALL]
)
def test_a_planted_fault_is_found(engine: str, plant: Plant, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(engine)


def test_the_clip_factor_has_one_home() -> None:
    assert bookkeeping.decide is ghost.decide is factor.decide
