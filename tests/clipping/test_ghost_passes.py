"""The two passes of `ghost`: one function, the same random numbers, in full precision, and little is held."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from six_rows import CLIP, LABELS, apart, data, dropped, network, proportional, spied, sums
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk
from discreet.clipping.engines import ghost, norms
from discreet.clipping.replay import Generators


def test_both_passes_have_the_same_dropout() -> None:
    model, inputs = dropped(), data(8)
    found = sums("ghost", model, inputs)
    assert apart(found, sums("bookkeeping", model, inputs)) <= 1e-12
    assert apart(found, sums("ghost", model, inputs, seed=1)) > 1e-3


def test_random_numbers_go_on_where_one_pass_leaves_them() -> None:
    after = []
    for engine in ("ghost", "bookkeeping"):
        torch.manual_seed(3)
        ENGINES[engine].clipped_sum(dropped(), nn.CrossEntropyLoss(), Chunk(data(8), LABELS), CLIP)
        after.append(torch.get_rng_state())
    assert torch.equal(*after)


def test_dropout_that_is_drawn_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above is worth. (The engine finds it too, by measuring again.)"""
    model, inputs = dropped(), data(8)
    wanted = sums("bookkeeping", model, inputs)
    monkeypatch.setattr(Generators, "rewind", lambda self: None)
    assert apart(sums("ghost", model, inputs), wanted) > 1e-3
    monkeypatch.setattr(ghost, "_allowed", lambda used, measured: True)
    assert apart(sums("ghost", model, inputs), wanted) > 1e-3


@pytest.mark.parametrize("rows", [[0], [2, 5], [0, 1, 2, 3, 4]])
def test_beside_examples_that_are_not_finite_the_others_keep_their_dropout(rows: list[int]) -> None:
    model, inputs = dropped(), data(8)
    inputs[rows] = float("nan")
    assert apart(sums("ghost", model, inputs), sums("bookkeeping", model, inputs)) <= 1e-12


class Growing(nn.Module):
    """Returns more in the second pass than in the first."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.calls = nn.Linear(8, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.head(x * (self.calls + 99) if self.calls == 2 else x)


def test_what_is_longer_in_the_second_pass_sends_the_chunk_to_book_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    again = spied(monkeypatch)
    inputs = data(8)
    wanted = sums("bookkeeping", network(Growing()), inputs, proportional)
    assert apart(sums("ghost", network(Growing()), inputs, proportional), wanted) <= 1e-12
    assert again == [6]
    with monkeypatch.context() as patch:
        patch.setattr(ghost, "_allowed", lambda used, measured: True)
        found = sums("ghost", network(Growing()), inputs, proportional)
    assert max(float(part.norm()) for part in found.values()) > 2 * len(inputs) * CLIP.norm
    assert again == [6]


class Spoiling(Growing):
    """Of what it returns in the second pass, one row is not finite."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x = x.clone()
        x[2] /= self.calls != 2
        return self.head(x)


def test_what_is_not_finite_in_the_second_pass_alone_sends_the_chunk_to_book_keeping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = spied(monkeypatch)
    wanted = sums("bookkeeping", network(Spoiling()), data(8), proportional)
    assert apart(sums("ghost", network(Spoiling()), data(8), proportional), wanted) <= 1e-12
    assert again == [6]


def test_what_was_measured_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a layer is measured, nothing of the layers that were measured before it is left but for the last one."""
    held: list[weakref.ref[Tensor]] = []
    alive: list[int] = []
    real = norms.measured

    def spy(parameters: Any, calls: Any, *others: Any) -> Any:
        alive.append(sum(one() is not None for one in held))
        held.extend(weakref.ref(call.gradients[0]) for call in calls)
        held.extend(weakref.ref(call.args[0]) for call in calls)
        return real(parameters, calls, *others)

    monkeypatch.setattr(norms, "measured", spy)
    layers = [part for _ in range(6) for part in (nn.Linear(8, 8), nn.Tanh())]
    sums("ghost", network(*layers, nn.Linear(8, 3)), data(8))
    assert len(alive) == 14  # in two passes
    assert max(alive) <= 2
    assert len(held) == 28


def test_both_passes_are_in_full_precision() -> None:
    seen: list[tuple[str, bool]] = []

    class Watching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
            return x

    torch.set_float32_matmul_precision("medium")
    try:
        sums("ghost", network(nn.Linear(4, 3), Watching()), data(4))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == [("highest", False)] * 2


def test_no_pass_computes_a_gradient_of_a_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules do, from the numbers that they measured."""
    model = network(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    asked: list[Any] = []
    real = torch.autograd.grad
    monkeypatch.setattr(
        torch.autograd,
        "grad",
        lambda loss, edges, *more, **named: asked.append(edges) or real(loss, edges, *more, **named),
    )
    sums("ghost", model, data(4))
    assert len(asked) == 2
    assert not any(isinstance(edge, Tensor) or hasattr(edge.node, "variable") for edges in asked for edge in edges)
