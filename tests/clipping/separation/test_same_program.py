"""Programs that look alike and compute something else are told apart: by zeros of complex numbers, by types, by memory
that is written to after it was used. What Python reads of a row ends no run, and a loss finds one row only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from discreet.clipping.losses import each_loss, summed_loss
from discreet.clipping.separation import Proofs, recorder
from discreet.clipping.separation.examine import examined, recorded
from discreet.clipping.separation.recording.program import Op, Program
from discreet.clipping.separation.recording.recorder import Recorder

WIDTH = 16

Work = Callable[[Tensor, bool], Tensor]


def complex_zeros(h: Tensor, late: bool) -> Tensor:
    z = (torch.relu(h) + 0.1) * complex(-1, -0.0 if late else 0.0)
    return torch.view_as_real(torch.sqrt(z))[..., 1]


def type_of_numbers(h: Tensor, late: bool) -> Tensor:
    torch.set_default_dtype(torch.float64 if late else torch.float32)
    tiny = torch.full((len(h), 1), 1e-46) > 0  # zero in single precision
    torch.set_default_dtype(torch.float32)
    return h * (1 - 2 * tiny.int())


def sign_of_what_is_no_number(h: Tensor, late: bool) -> Tensor:
    number = float("nan")
    return h * (1 - 2 * torch.full((len(h), 1), -number if late else number).signbit().int())


def bytes_written_later(h: Tensor, late: bool) -> Tensor:
    memory = bytearray(np.ones(WIDTH, np.float32).tobytes())
    result = h * torch.frombuffer(memory, dtype=torch.float32)
    if late:
        np.frombuffer(memory, np.float32)[:] = -1  # for the way back
    return result


def array_written_later(h: Tensor, late: bool) -> Tensor:
    memory = np.ones(WIDTH, np.float32)
    result = h * torch.from_numpy(memory)
    if late:
        memory *= -1
    return result


def run(work: Work, late: bool) -> Callable[[int], None]:
    def on(rows: int) -> None:
        h = torch.linspace(-1, 1, rows * WIDTH).view(rows, WIDTH).requires_grad_()
        with recorder.forward(None, h):
            recorder.returns(work(h, late))

    return on


def ran(work: Work, late: bool, expected: Callable[[int], Sequence[Op]]) -> Program:
    one = Recorder(plain_loss=True, expected=expected)
    with one.recording():
        run(work, late)(6)
    return one.programs[0]


@pytest.mark.parametrize(
    "work",
    [complex_zeros, type_of_numbers, sign_of_what_is_no_number, bytes_written_later, array_written_later],
    ids=lambda work: work.__name__,
)
def test_another_program_is_not_the_one_that_was_proved(work: Work) -> None:
    proofs = Proofs([examined(run(work, False))], run(work, False))
    for expected in (proofs.expected, lambda batch: ()):
        assert proofs.cover(ran(work, False, expected))
        assert not proofs.cover(ran(work, True, expected))


def test_operators_are_recorded_as_they_ran_whatever_is_expected() -> None:
    """Those that are as expected are the very same objects, which need no memory."""

    def work(h: Tensor, late: bool) -> Tensor:
        return (h * 2 + 1).relu() if late else (h * 2 + 3).relu() * 4

    proofs = Proofs([examined(run(work, False))], run(work, False))
    expected = proofs.expected(6)
    assert all(one is other for one, other in zip(ran(work, False, proofs.expected).ops, expected, strict=True))
    other = ran(work, True, proofs.expected)
    assert other.ops == ran(work, True, lambda batch: ()).ops != expected
    assert not proofs.cover(other)


def test_constants_that_torch_writes_to_are_followed() -> None:
    def work(h: Tensor, _: bool) -> Tensor:
        table = torch.from_numpy(np.ones(WIDTH, np.float32))
        table.mul_(2)
        table[0] = 3.0
        other = torch.tensor([1.0] * WIDTH)
        other += 1
        return h * table + other

    assert recorded(run(work, False), 6)[0].fault is None


@pytest.mark.parametrize(
    "error", [AssertionError, KeyError, SystemExit, ArithmeticError, type("Odd", (BaseException,), {})]
)
def test_a_number_that_python_read_of_a_row_ends_no_run(error: type[BaseException]) -> None:
    """The same line reads a weight elsewhere, and fails on a large number."""
    weight = torch.ones(())

    def work(h: Tensor, late: bool) -> Tensor:
        if float(h.detach().abs().max() * 1000 if late else weight) > 30:
            raise error("too large")
        return h * 1

    proofs, one = Proofs([examined(run(work, False))], run(work, False)), Recorder()
    with one.recording(), pytest.raises(error):
        run(work, True)(6)
    assert not proofs.cover(one.programs[0])


class LooksBack:
    """A loss that cannot be vectorised, and looks for what the layers saw."""

    seen: ClassVar[set[str]] = set()

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        float(output.detach().sum())
        todo = [output.grad_fn]
        while todo:
            node = todo.pop()
            if node is not None:
                self.seen.add(node.name())
                todo += [one for one, _ in node.next_functions]
        return cross_entropy(output, target) * 3


def test_a_loss_finds_the_graph_of_no_other_row() -> None:
    torch.manual_seed(0)
    layer, x, y = nn.Linear(4, 3), torch.randn(6, 4), torch.arange(6) % 3
    found, wanted = summed_loss(LooksBack(), layer(x), y), cross_entropy(layer(x), y, reduction="sum") * 3
    of_one_row = {"CloneBackward0", "UnsqueezeBackward0", "torch::autograd::AccumulateGrad"}
    assert LooksBack.seen == of_one_row
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad(one, list(layer.parameters())) for one in (found, wanted)]
    torch.testing.assert_close(*gradients)
    assert each_loss(LooksBack(), layer(x), y).shape == (6,)


def test_a_loss_of_several_outputs_keeps_all_their_gradients() -> None:
    def loss(output: dict[str, Tensor], target: Tensor) -> Tensor:
        float(target.sum())
        return (output["a"] ** 2).sum() + (output["b"] * output["c"]).abs().sum()

    a, b = torch.randn(5, 3, requires_grad=True), torch.randn(5, 2, dtype=torch.complex64, requires_grad=True)
    c, y = torch.randn(5, 2), torch.zeros(5)
    found = summed_loss(loss, {"a": a, "b": b, "c": c}, y)
    wanted = (a**2).sum() + (b * c).abs().sum()
    torch.testing.assert_close(torch.autograd.grad(found, [a, b]), torch.autograd.grad(wanted, [a, b]))
