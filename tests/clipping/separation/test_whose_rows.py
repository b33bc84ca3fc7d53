"""What a module with parameters returns must be each example's own, also where it is alike for all: the gradient of an
entry is taken for that of the example in whose place the module returned it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from mixing_modules import Two
from mixing_runs import moves
from torch import Tensor, nn

from discreet import UnsupportedModel
from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.separation import Mixes, proved

LOSS, CLIP = nn.CrossEntropyLoss(reduction="none"), Clip(1.0, 2.0**-30)


class Scaled(nn.Module):
    """Without a rule: it runs again to clip its gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.scale * self.scale)


class Between(nn.Module):
    """Adds to rows what `inner` makes of constants, in the order that `turn` puts it."""

    def __init__(self, inner: nn.Module, turn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.turn, self.last = inner, turn, nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        made = self.turn(self.inner(-torch.ones(len(x), 5)))
        output: Tensor = self.last(x + made.sum(1, keepdim=True))
        return output


def turned(numbers: Tensor) -> Tensor:
    """Numbers of shape (batch, 5) in another order."""
    return numbers.reshape(5, -1).t()


def rows(count: int) -> Chunk:
    torch.manual_seed(count)
    return Chunk(torch.randn(count, 3), torch.arange(count) % 2)


@pytest.mark.parametrize("turn", [turned, lambda made: made])
@pytest.mark.parametrize("inner", [nn.PReLU, Scaled])
def test_constants_that_went_through_a_module_are_not_proved(
    inner: Callable[[], nn.Module], turn: Callable[[Tensor], Tensor]
) -> None:
    model = Between(inner(), turn)
    with pytest.raises(Mixes, match="module 'inner' returns may be alike for all"):
        proved(lambda count: ENGINES["bookkeeping"].clipped_sum(model, LOSS, rows(count), CLIP))


WRITERS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "copied": lambda made, x: made.copy_(x),
    "added": lambda made, x: made.add_(x),
    "to a part": lambda made, x: made[:, 0].copy_(x[:, 0]),
    "by a view": lambda made, x: made.view(-1).add_(x.reshape(-1)),
    "limited": lambda made, x: made.clamp_(x),
    "past autograd": lambda made, x: made.detach().copy_(x),
    "as an output": lambda made, x: torch.add(x, 1.0, out=made.detach()),
}


class Overwritten(nn.Module):
    """Uses what a module made of constants in another order, and then writes rows over it."""

    def __init__(self, inner: nn.Module, write: Callable[[Tensor, Tensor], object], *, returned: bool) -> None:
        super().__init__()
        self.inner, self.write, self.last, self.returned = inner, write, nn.Linear(3, 2), returned

    def forward(self, x: Tensor) -> Tensor:
        made = self.inner(-torch.ones(len(x), 3))
        turned = made.reshape(3, -1).t().sum(1, keepdim=True)
        self.write(made, x)
        output: Tensor = self.last(x + turned + (made if self.returned else 0.0))
        return output


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("inner", [nn.PReLU, Scaled])
@pytest.mark.parametrize("way", WRITERS)
def test_rows_that_are_written_over_it_later_make_no_proof(
    way: str, inner: Callable[[], nn.Module], returned: bool
) -> None:
    """Its gradient is that of what the module returned, and not of what is there in the end."""
    model = Overwritten(inner(), WRITERS[way], returned=returned)
    with pytest.raises(Mixes, match="module 'inner' returns may be alike for all"):
        proved(lambda count: ENGINES["bookkeeping"].clipped_sum(model, LOSS, rows(count), CLIP))


@pytest.mark.parametrize("inner", [nn.PReLU, Scaled])
def test_gradients_would_be_taken_for_those_of_others(inner: Callable[[], nn.Module]) -> None:
    """So a proof is needed: an example would be moved by another one."""
    torch.manual_seed(0)
    model, given, clip = Between(inner(), turned), rows(7), Clip(0.1, 2.0**-30)
    found, wanted = (ENGINES[one].clipped_sum(model, LOSS, given, clip) for one in ("bookkeeping", "reference"))
    assert max(float((found[name] - part).abs().max()) for name, part in wanted.items()) > 0.005


MADE_AGAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "as_tensor": torch.as_tensor,
    "asarray": lambda one: torch.asarray(one, requires_grad=True),
    "asarray, copied": lambda one: torch.asarray(one, copy=True, requires_grad=True),
    "as_tensor of another type": lambda one: torch.as_tensor(one, dtype=torch.float64).float(),
}


class Zeros(nn.Module):
    """Adds to every row what is zero in all, but for its gradient, which is that of all examples."""

    def __init__(self, again: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.again, self.last = nn.Linear(3, 3), again, nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        made = self.inner(x)
        output: Tensor = self.last(made + self.again((made - made.detach()).sum(0)))
        return output


@pytest.mark.parametrize("way", MADE_AGAIN)
def test_a_tensor_that_is_made_of_another_is_no_constant_where_a_gradient_goes_on(way: str) -> None:
    model = Zeros(MADE_AGAIN[way])
    with pytest.raises(Mixes):
        proved(lambda count: ENGINES["bookkeeping"].clipped_sum(model, LOSS, rows(count), CLIP))


def test_a_tensor_that_is_given_back_is_the_same_one() -> None:
    layers = nn.Sequential(nn.Linear(3, 3), Same(), nn.Linear(3, 2))
    proved(lambda count: ENGINES["bookkeeping"].clipped_sum(layers, LOSS, rows(count), CLIP))


class Same(nn.Module):
    """Gives back what it is given."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(x)


class Beside(Two):
    """Returns a tensor beside its rows that is the same for every batch, and longer than most."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("signs", torch.cat([torch.ones(40), torch.tensor([1.0, -1.0]).repeat(30)]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.last(torch.tanh(self.first(x))), self.signs


class PartOfIt(Beside):
    """As much of it as there are rows."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output, signs = super().forward(x)
        return output, signs[: len(x)]


class ForEach(Beside):
    """The same numbers for each example, and nothing of each."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        output, signs = super().forward(x)
        return output, signs[:2].expand(len(x), -1), x[:, :0]


def by_sign(output: tuple[Tensor, ...], target: Tensor) -> Tensor:
    """A loss that weighs examples."""
    return nn.functional.cross_entropy(output[0], target) * output[1].flatten()[0]


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("kind", [Beside, PartOfIt])
def test_no_example_gets_what_lies_at_its_place(kind: type[nn.Module], engine: str) -> None:
    """By such weights, a row that left moved the sum by eight clip norms."""
    with pytest.raises(UnsupportedModel, match=r"is the same for every batch|is returned depends on several examples"):
        moves(kind, engine, 1, loss=lambda: by_sign, long=0)


def test_the_same_numbers_for_each_are_fine() -> None:
    assert moves(ForEach, "bookkeeping", 1, loss=lambda: by_sign, long=0) <= 1.01
