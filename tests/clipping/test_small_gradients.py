"""Small gradients of layers that are alike are measured and summed together: with the results of layers apart."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Group
from discreet.clipping.engines import small_gradients
from discreet.clipping.engines.bookkeeping import clipped_sums
from discreet.clipping.rules import base, linear
from discreet.clipping.rules.products import stack
from discreet.clipping.units import Units

ROWS, LENGTH, WIDTH, RANK, LAYERS = 5, 6, 40, 3, 4
NORM = 1e-2

Sums = dict[str, Tensor]


class Adapted(nn.Module):
    """A frozen layer beside two small ones."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, RANK, bias=False), nn.Linear(RANK, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.whole(x) + self.up(self.down(x)))


def given(units: Units | None = None) -> tuple[nn.Module, nn.Module, Chunk]:
    torch.manual_seed(0)
    model = nn.Sequential(*[Adapted() for _ in range(LAYERS)], nn.Flatten(), nn.Linear(LENGTH * WIDTH, 3))
    return model, nn.CrossEntropyLoss(), Chunk(torch.randn(ROWS, LENGTH, WIDTH), torch.arange(ROWS) % 3, units)


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """The shapes of the stacks that are made."""
    made: list[torch.Size] = []
    plain = stack.Stack.squares

    def squares(self: stack.Stack) -> Tensor:
        made.append(self.rows.shape)
        return plain(self)

    monkeypatch.setattr(stack.Stack, "squares", squares)
    return made


def apart(monkeypatch: pytest.MonkeyPatch, clip: Clip, units: Units | None = None) -> Sums:
    """The sums with every layer by itself."""
    with monkeypatch.context() as patch:
        patch.setattr(small_gradients, "SMALL", 0)
        return clipped_sums(*given(units), clip)


APART = (
    *(Group(NORM * (i + 1), frozenset({f"{i}.down.weight", f"{i}.up.weight"})) for i in range(LAYERS)),
    Group(NORM, frozenset({f"{LAYERS + 1}.weight", f"{LAYERS + 1}.bias"})),
)


@pytest.mark.parametrize(
    "clip",
    [Clip(NORM, 2.0**-30), Clip(1e3, 2.0**-30), Clip.grouped(APART, 2.0**-30)],
    ids=["all clipped", "none clipped", "groups of their own"],
)
@pytest.mark.parametrize("sizes", [None, (2, 1, 2)], ids=["rows", "users"])
def test_sums_are_those_of_layers_apart(
    clip: Clip, sizes: tuple[int, ...] | None, stacks: list[torch.Size], monkeypatch: pytest.MonkeyPatch
) -> None:
    units = None if sizes is None else Units(sizes)
    together = clipped_sums(*given(units), clip)
    count = ROWS if units is None else len(units)
    assert sorted(stacks) == [(count, LAYERS, RANK, WIDTH), (count, LAYERS, WIDTH, RANK)]
    wanted = ENGINES["reference"].clipped_sum(*given(units), clip)
    for other, slack in ((apart(monkeypatch, clip, units), 1e-6), (wanted, 1e-4)):  # norms are enlarged for rounding
        for name, part in together.items():
            off = (part.double() - other[name].double()).norm()
            assert off <= slack * other[name].double().norm(), name


def test_a_row_that_is_not_finite_adds_nothing(stacks: list[torch.Size]) -> None:
    model, loss, chunk = given()
    x, y = chunk.inputs, chunk.targets
    kept = [0, 1, 3, 4]
    wanted = clipped_sums(model, loss, Chunk(x[kept], y[kept]), Clip(NORM, 2.0**-30))
    x[2, 0, 0] = torch.inf
    found = clipped_sums(model, loss, Chunk(x, y), Clip(NORM, 2.0**-30))
    assert len(stacks) == 4
    for name, part in found.items():
        torch.testing.assert_close(part, wanted[name])


@pytest.mark.parametrize("rows", [1, ROWS])
def test_norms_do_not_depend_on_the_layers_beside(rows: int) -> None:
    """Nor on the other rows, and have the same bits."""
    torch.manual_seed(1)
    for shape in ((3, 5), (3, 11), (40, 3), (16, 160)):
        layers = [torch.randn(rows, *shape) * 10.0**i for i in range(-2, 3)]
        together = stack.Stack(layers, [0] * len(layers)).squares()
        for layer, found in zip(layers, together, strict=True):
            assert torch.equal(found, base.squared_norms(layer))


def test_a_stack_keeps_to_the_memory_of_a_rule(stacks: list[torch.Size], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BUDGET", 2 * ROWS * RANK * WIDTH * 4)
    clip = Clip(NORM, 2.0**-30)
    found = clipped_sums(*given(), clip)
    assert {shape[1] for shape in stacks} == {2}
    for name, part in apart(monkeypatch, clip).items():
        torch.testing.assert_close(found[name], part)


def test_large_gradients_are_not_copied(stacks: list[torch.Size], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_gradients, "SMALL", ROWS * RANK * WIDTH * 4 - 1)
    clipped_sums(*given(), Clip(NORM, 2.0**-30))
    assert not stacks


@pytest.mark.parametrize("most", [0, ROWS * RANK * WIDTH * 4 - 1, ROWS * RANK * WIDTH * 4])
def test_gradients_are_formed_once_whatever_their_size(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    formed: list[torch.Size] = []
    plain = linear.products

    def products(one: Tensor, other: Tensor) -> Tensor:
        found = plain(one, other)
        formed.append(found.shape)
        return found

    monkeypatch.setattr(linear, "products", products)
    monkeypatch.setattr(small_gradients, "SMALL", most)
    clipped_sums(*given(), Clip(NORM, 2.0**-30))
    assert sorted(formed) == [(ROWS, RANK, WIDTH)] * LAYERS + [(ROWS, WIDTH, RANK)] * LAYERS


HALVES = tuple(
    Group(NORM * (half + 1), frozenset(f"{i}.{name}.weight" for i in range(half, LAYERS, 2) for name in ("down", "up")))
    for half in range(2)
)


@pytest.mark.parametrize(
    ("clip", "layers"),
    [
        (Clip(NORM, 2.0**-30), [LAYERS]),
        (Clip.grouped(APART, 2.0**-30), [1] * LAYERS),
        (Clip.grouped((*HALVES, APART[-1]), 2.0**-30), [LAYERS // 2] * 2),
    ],
    ids=["all together", "groups of their own", "two groups"],
)
def test_every_layer_is_summed_once(clip: Clip, layers: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """And those with the same weights are summed in one call."""
    summed: list[torch.Size] = []
    plain = stack.weighted_sum

    def weighted_sum(weights: Tensor, rows: Tensor) -> Tensor:
        summed.append(rows.shape)
        return plain(weights, rows)

    monkeypatch.setattr(stack, "weighted_sum", weighted_sum)
    found = clipped_sums(*given(), clip)
    shapes = ((RANK, WIDTH), (WIDTH, RANK))
    assert sorted(summed) == sorted((ROWS, count, *shape) for shape in shapes for count in layers)
    for name, part in apart(monkeypatch, clip).items():
        torch.testing.assert_close(found[name], part)


def test_weights_of_other_rows_are_not_taken_for_those_before() -> None:
    rows = [torch.randn(ROWS, 2, 3) for _ in range(2)]
    one, weights = stack.Stack(rows, [0, 0]), torch.rand(ROWS, dtype=torch.float64)
    for factor in (weights, weights * 2, weights):
        for place, layer in enumerate(rows):
            wanted = torch.einsum("i,ijk->jk", factor, layer.double())
            torch.testing.assert_close(one.total(place, factor).double(), wanted, rtol=1e-5, atol=1e-6)
