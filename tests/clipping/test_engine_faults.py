"""Faults planted in each engine, and in what adds its chunks up: the checks that hold them to a loop must fail.

What a rule of `bookkeeping` may get wrong is in test_battery_faults.py, what the step may get wrong in
tests/laws/test_step_faults.py.

| fault                                        | engines                  | found by |
|----------------------------------------------|--------------------------|----------|
| clip norm stored twice, one of them changed  | all                      | agreement, bound |
| norms in half precision                      | all                      | agreement |
| loss divided by the batch before clipping    | all                      | agreement |
| cross term of a tied weight dropped          | all but reference, exact | agreement |
| a call of a tied layer lost                  | bookkeeping, ghost       | agreement |
| zero weight on an infinite gradient          | all                      | bound |
| a chunk's sum lost, or counted twice         | all                      | chunks |
| gradients left in `.grad`                    | reference, exact         | left as found |
| training mode left changed                   | all                      | left as found |
| a hook left behind                           | bookkeeping, ghost       | left as found |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from layers import Around, Problem, Tied, Twice, criterion
from numpy.typing import NDArray
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Chunk, Clip, private_parameters
from discreet.clipping.capture import capture
from discreet.clipping.engines import bookkeeping, ghost
from discreet.clipping.engines import engine as engines
from discreet.clipping.rules import base, linear, numbers

NORM = 0.05
CLIP = Clip(NORM, 2.0**-40)
ROWS = 6

PROBLEMS = {
    "sequence": Problem(lambda: Around(nn.Linear(4, 3)), (5, 4)),
    "tied table": Problem(lambda: Tied(3, None), (5,), tokens=True),
    "tied layers": Problem(lambda: Twice(nn.Linear(3, 3), nn.Linear(3, 3)), (2, 3)),
    "padded": Problem(lambda: Around(nn.Embedding(6, 3, 2)), (8,), tokens=True),
}


def rows_of(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    model, inputs, targets = PROBLEMS[name].make(ROWS, torch.float32, 2)
    return model, inputs, targets * torch.logspace(-3, 1, ROWS)  # some are clipped and some are not


def looped(model: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The clipped sum by backward passes and plain arithmetic, nothing of the library's."""
    total = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in model.named_parameters()}
    for i in range(len(inputs)):
        copy = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
        output = torch.func.functional_call(model, copy, (inputs[i : i + 1],))
        loss = criterion(output, targets[i : i + 1])
        loss.backward()
        row = {
            name: np.zeros(p.shape) if p.grad is None else p.grad.numpy().astype(np.float64) for name, p in copy.items()
        }
        norm = math.sqrt(sum(float((part**2).sum()) for part in row.values()))
        for name in total:
            total[name] += torch.from_numpy(row[name] * min(1.0, NORM / norm if norm else 1.0))
    return total


def apart(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The distance of two sums, in clip norms for each row."""
    squares = [
        np.square(np.asarray(one[name].detach(), np.float64) - np.asarray(other[name], np.float64)).sum()
        for name in other
    ]
    return float(np.sqrt(sum(squares))) / (NORM * ROWS)


def check_agreement(engine: str) -> None:
    for name in PROBLEMS:
        model, inputs, targets = rows_of(name)
        sums = ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets), CLIP)
        assert apart(sums, looped(model, inputs, targets)) <= 1e-5, name


def check_bound(engine: str) -> None:
    """The last row moves the sum by at most the clip norm, as it is and with an infinity in it."""
    for name, problem in PROBLEMS.items():
        for value in (None, math.inf):
            model, inputs, targets = rows_of(name)
            rest = ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs[:-1], targets[:-1]), CLIP)
            if value is not None:
                (targets if problem.tokens else inputs)[-1] = value
            whole = ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets), CLIP)
            assert apart(whole, rest) * ROWS <= 1 + 1e-5, name


def check_chunks(engine: str) -> None:
    for name in PROBLEMS:
        model, inputs, targets = rows_of(name)
        wanted = looped(model, inputs, targets)
        for size in (1, 2, 4, ROWS):
            accumulator = Accumulator(private_parameters(model))
            for x, y in zip(inputs.split(size), targets.split(size), strict=True):
                accumulator.add(ENGINES[engine].clipped_sum(model, criterion, Chunk(x, y), CLIP))
            total = accumulator.total(ENGINES[engine], CLIP, ROWS)
            assert apart({key: torch.from_numpy(part) for key, part in total.tensors.items()}, wanted) <= 1e-5


def check_left_as_found(engine: str) -> None:
    model, inputs, targets = rows_of("sequence")
    ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets), CLIP)
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


CHECKS = (check_agreement, check_bound, check_chunks, check_left_as_found)


def clip_norm_stored_twice(patch: pytest.MonkeyPatch) -> None:
    def longer(real: Callable[..., Any], place: int) -> Callable[..., Any]:
        def function(*args: Any) -> Any:
            clip = replace(args[place], norm=1.05 * args[place].norm)
            return real(*args[:place], clip, *args[place + 1 :])

        return function

    for module, name, place in (
        (bookkeeping, "decide", 0),
        (ghost, "decide", 0),
        (engines, "clipped", 1),
        (engines, "clipped_sum", 1),
    ):
        patch.setattr(module, name, longer(getattr(module, name), place))


def half_precision_norms(patch: pytest.MonkeyPatch) -> None:
    real = torch.linalg.vector_norm
    patch.setattr(torch.linalg, "vector_norm", lambda rows, dim, **_: real(rows.bfloat16(), dim=dim).to(rows.dtype))

    def squared(rows: NDArray[np.float32], squares: NDArray[np.float64]) -> None:
        squares[:] = real(torch.from_numpy(rows).bfloat16(), dim=1).double().square().numpy()

    patch.setattr(numbers, "_compiled", lambda: squared)


def loss_divided_before_clipping(patch: pytest.MonkeyPatch) -> None:
    loss, rows, grad = capture.summed_loss, engines._per_row, engines.grad
    patch.setattr(capture, "summed_loss", lambda c, output, targets: loss(c, output, targets) / len(targets))

    def per_row(model: nn.Module, c: Any, chunk: Chunk) -> Iterator[dict[str, Tensor]]:
        for row in rows(model, c, chunk):
            yield {name: part / len(chunk.inputs) for name, part in row.items()}

    patch.setattr(engines, "_per_row", per_row)
    patch.setattr(engines, "grad", lambda function: grad(lambda *given: function(*given) / ROWS))


def cross_term_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bookkeeping, "joined", lambda held: None)
    patch.setattr(bookkeeping, "_squares", lambda held, _: sum(one.squares(name) for one, name in held))
    patch.setattr(linear.LinearRule, "join", lambda self, others: None)
    patch.setattr(engines, "functional_call", functools.partial(engines.functional_call, tie_weights=False))


def call_of_a_tied_layer_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(linear.LinearRule, "join", lambda self, others: self)


def infinities_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(base.Rule, "drop", lambda self, unusable: None)
    patch.setattr(base.Formed, "drop", lambda self, unusable: None)
    patch.setattr(Tensor, "masked_fill", lambda self, mask, value: self)


def chunk_lost(patch: pytest.MonkeyPatch) -> None:
    real = Accumulator.add

    def add(self: Accumulator, sums: Mapping[str, Tensor]) -> None:
        if not self._totals:  # only the first is added
            real(self, sums)

    patch.setattr(Accumulator, "add", add)


def chunk_counted_twice(patch: pytest.MonkeyPatch) -> None:
    real = Accumulator.add

    def add(self: Accumulator, sums: Mapping[str, Tensor]) -> None:
        real(self, {name: part.clone() for name, part in sums.items()})
        if len(self._totals) == 1:
            return
        real(self, sums)

    patch.setattr(Accumulator, "add", add)


def gradients_left_behind(patch: pytest.MonkeyPatch) -> None:
    def grad(loss: Tensor, leaves: list[Tensor], allow_unused: bool) -> list[Tensor | None]:
        for leaf in leaves:
            leaf.grad = None
        loss.backward()
        return [leaf.grad for leaf in leaves]

    patch.setattr(torch.autograd, "grad", grad)


def mode_left_changed(patch: pytest.MonkeyPatch) -> None:
    real = nn.Module.__call__

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        self.training = False
        return real(self, *args, **kwargs)

    patch.setattr(nn.Module, "__call__", call)


def hook_left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("torch.utils.hooks.RemovableHandle.remove", lambda self: None)


Plant = Callable[[pytest.MonkeyPatch], None]
Check = Callable[[str], None]
EVERY = tuple(ENGINES)

FAULTS: list[tuple[Plant, Check, tuple[str, ...]]] = [
    (clip_norm_stored_twice, check_agreement, EVERY),
    (clip_norm_stored_twice, check_bound, EVERY),
    (half_precision_norms, check_agreement, EVERY),
    (loss_divided_before_clipping, check_agreement, EVERY),
    (cross_term_dropped, check_agreement, ("bookkeeping", "ghost", "vmap")),
    (call_of_a_tied_layer_lost, check_agreement, ("bookkeeping", "ghost")),
    (infinities_kept, check_bound, EVERY),
    (chunk_lost, check_chunks, EVERY),
    (chunk_counted_twice, check_chunks, EVERY),
    (gradients_left_behind, check_left_as_found, ("reference", "exact")),
    (mode_left_changed, check_left_as_found, EVERY),
    (hook_left_behind, check_left_as_found, ("bookkeeping", "ghost")),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("check", CHECKS)
def test_every_engine_passes(check: Check, engine: str) -> None:
    check(engine)


@pytest.mark.parametrize(
    ("plant", "check", "engine"),
    [
        pytest.param(plant, check, engine, id=f"{plant.__name__}-{check.__name__}-{engine}")
        for plant, check, some in FAULTS
        for engine in some
    ],
)
def test_a_planted_fault_is_found(plant: Plant, check: Check, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(engine)
