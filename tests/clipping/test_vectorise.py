"""Models that draw numbers into memory of their own run under vmap, with numbers of its own for each example. Code of
an example is not shown the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.vectorise import vectorised_call
from discreet.core.errors import UnsupportedModel

CLIP = Clip(1e6, 2.0**-30)


class Branch(nn.Module):
    """A scale that the module holds itself, and a branch that is dropped for half of the examples, as torchvision does
    it in ConvNeXt and Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.empty([len(x), 1], dtype=x.dtype, device=x.device)
        kept.bernoulli_(0.5)
        counted = torch.empty(1, dtype=torch.int64).fill_(2)
        return x + self.scale * x * kept * counted


def _weighted(output: Tensor, target: Tensor) -> Tensor:
    return output.sum(1) * target


class OfZeros(Branch):
    """The same, drawn into zeros and compared with ones and a full tensor."""

    def forward(self, x: Tensor) -> Tensor:
        drawn = torch.zeros(len(x), 1).float().uniform_(0, 1) < torch.full((len(x), 1), 0.0).uniform_(0, 1)
        return x + self.scale * x * drawn * torch.ones(len(x), 1).bernoulli_(1.0) * torch.full((1,), 2.0)


@pytest.mark.parametrize("kind", [Branch, OfZeros])
def test_each_example_drops_its_branch_by_itself(kind: type[Branch]) -> None:
    """Row i adds 2 x 2^i or nothing to each entry, so the sum tells who was dropped. That all of twelve rows are
    dropped or none has probability 2^-11, and the seed is fixed."""
    torch.manual_seed(0)
    model, inputs, targets = kind(), torch.ones(12, 4), 2.0 ** torch.arange(12)
    found = ENGINES["vmap"].clipped_sum(model, _weighted, Chunk(inputs, targets), CLIP)["scale"]
    assert torch.all(found == found[0])
    assert found[0] % 2 == 0
    assert 0 < found[0] < 2 * (2**12 - 1)
    again = ENGINES["vmap"].clipped_sum(model, _weighted, Chunk(inputs, targets), CLIP)["scale"]
    assert again[0] != found[0]


class Known(nn.Module):
    """Python reads a number from memory that the module asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * float(torch.empty(1).fill_(2.0))


def test_memory_without_random_numbers_can_be_read() -> None:
    found = ENGINES["vmap"].clipped_sum(Known(), _weighted, Chunk(torch.ones(3, 4), torch.ones(3)), CLIP)
    torch.testing.assert_close(found["scale"], torch.full((4,), 6.0), check_dtype=False)


class PartlyWritten(Branch):
    """Half of the memory is never written to."""

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.empty([len(x), 4])
        kept[:, :2].bernoulli_(1.0)
        return x * self.scale * kept


def test_memory_that_nobody_wrote_to_is_zero() -> None:
    [torch.full((3, 1, 4), 7.0) for _ in range(1000)]  # which memory of the next tensors still holds
    found = ENGINES["vmap"].clipped_sum(PartlyWritten(), _weighted, Chunk(torch.ones(3, 4), torch.ones(3)), CLIP)
    torch.testing.assert_close(found["scale"], torch.tensor([3.0, 3.0, 0.0, 0.0]), check_dtype=False)


class WritesToItsInput(Branch):
    """What it is given is twice as large once it has begun."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mul_(2))


def test_what_a_first_attempt_wrote_to_is_not_taken_again() -> None:
    with pytest.raises(UnsupportedModel, match="inplace randomness"):
        ENGINES["vmap"].clipped_sum(WritesToItsInput(), _weighted, Chunk(torch.ones(3, 4), torch.ones(3)), CLIP)


MARK = 0.625
"""A number that one row has."""


class Sees(TorchDispatchMode):
    """A mode that is given the tensors of all examples."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.marked = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.marked = self.marked or bool((args[0] == MARK).any())
        return func(*args, **(kwargs or {}))


def by_text(output: Tensor) -> bool:
    return str(MARK) in str(output.detach())


def by_format(output: Tensor) -> bool:
    return str(MARK) in f"{output.detach()}"


def by_mode(output: Tensor) -> bool:
    with Sees() as mode:
        output.detach().neg()
    return mode.marked


def by_hooks(output: Tensor) -> bool:
    seen: list[bool] = []

    def pack(one: Tensor) -> Tensor:
        seen.append(bool((one == MARK).any()))
        return one

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        output.square()
    return any(seen)


def by_distance(output: Tensor) -> bool:
    """In a function that torch calls where no mode is on."""
    seen: list[bool] = []

    def distance(one: Tensor, other: Tensor) -> Tensor:
        seen.append(by_mode(one))
        return (one - other).sum()

    F.triplet_margin_with_distance_loss(output, output, output, distance_function=distance)
    return any(seen)


LOOKS = [by_text, by_format, by_mode, by_hooks, by_distance]


@pytest.mark.parametrize("look", LOOKS)
def test_code_of_one_example_is_not_shown_the_others(look: Callable[[Tensor], bool]) -> None:
    with pytest.raises(RuntimeError, match="under vmap, torch shows all examples to the code of each one"):
        vectorised_call(lambda output: output * look(output), (0,), torch.ones(3, 2, requires_grad=True))


def moved_by_the_mark(loss: Callable[[Tensor, Tensor], Tensor], engine: str) -> float:
    """How far a row with a mark moves the clipped sum of nine rows, in clip norms."""

    def total(inputs: Tensor) -> Tensor:
        chunk = Chunk(inputs, torch.ones(len(inputs)))
        return ENGINES[engine].clipped_sum(model, loss, chunk, Clip(1.0, 2.0**-30))["weight"].double()

    model = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.eye(2))
    inputs = torch.rand(9, 2, generator=torch.Generator().manual_seed(0))
    inputs[0] = MARK
    return float((total(inputs) - total(inputs[1:])).norm())


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_a_loss_that_looks_at_all_rows_sees_one(look: Callable[[Tensor], bool], engine: str) -> None:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output.sum(1) * target) * (-1.0 if look(output) else 1.0)

    assert moved_by_the_mark(loss, engine) <= 1.0001


class Turned(torch.autograd.Function):
    """Turns the gradients of all examples round if one of them has a mark."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0] if by_text(ctx.saved_tensors[0]) else gradients[0]


LIBRARY = torch.library.Library("discreet_tests", "DEF")
LIBRARY.define("turned(Tensor x) -> Tensor")
LIBRARY.impl("turned", lambda x: -x if by_text(x) else x * 1, "CompositeImplicitAutograd")


def by_function(h: Tensor) -> Tensor:
    made: Tensor = Turned.apply(h)  # type: ignore[no-untyped-call]
    return made


def by_kernel(h: Tensor) -> Tensor:
    made: Tensor = torch.ops.discreet_tests.turned(h)
    return made


def by_operation(h: Tensor) -> Tensor:
    if (made := h * 1).grad_fn is not None:
        made.grad_fn.register_prehook(lambda given: (-given[0] if by_text(h) else given[0],))
    return made


class Turns(nn.Module):
    def __init__(self, turn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.turn, self.last = turn, nn.Linear(2, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.turn(self.last(x))
        return made


@pytest.mark.parametrize("turn", [by_function, by_kernel, by_operation])
def test_code_that_runs_in_no_mode_is_refused(turn: Callable[[Tensor], Tensor]) -> None:
    """As the backward pass of a function, which the mode that looks at the forward pass does not see."""
    chunk = Chunk(torch.rand(3, 2), torch.ones(3))
    with pytest.raises(UnsupportedModel, match="under vmap, torch shows all examples to the code of each one in"):
        ENGINES["vmap"].clipped_sum(Turns(turn), _weighted, chunk, CLIP)


@pytest.mark.parametrize("turn", [by_function, by_kernel])
@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_a_loss_with_such_code_sees_one_row(turn: Callable[[Tensor], Tensor], engine: str) -> None:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return turn(output).sum(1) * target

    assert moved_by_the_mark(loss, engine) <= 1.0001


def test_functions_that_torch_is_given_are_called() -> None:
    rows = torch.rand(4, 3)
    found = vectorised_call(
        lambda a: F.triplet_margin_with_distance_loss(a, a, a, distance_function=_apart), (0,), rows
    )
    assert torch.equal(found, torch.ones(4))


def _apart(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).square().sum(-1)
