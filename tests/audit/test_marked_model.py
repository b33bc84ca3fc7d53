"""A model with places computes what it would without, and a canary's gradient is all but its place."""

import pytest
import torch
from torch import Tensor, nn

from discreet.audit.one_run.marked_model import LOUDNESS, MarkedModel, marked
from discreet.data import as_private
from discreet.training.preflight.random_rows import few_words, random_rows

SHAPE = (2, 3)


def model_and_rows(kind: torch.dtype = torch.float32) -> tuple[MarkedModel, nn.Module, Tensor]:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Flatten(), nn.Linear(6, 4)).to(kind)
    rows = torch.randn(5, *SHAPE).to(kind)
    return MarkedModel(inner, torch.Size(SHAPE), kind, 7).to(kind), inner, rows


def gradients(model: MarkedModel, row: Tensor, target: int) -> dict[str, Tensor]:
    model.zero_grad()
    nn.functional.cross_entropy(model(row), torch.tensor([target])).backward()
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_outputs_are_those_of_the_model_whatever_its_places_hold(kind: torch.dtype) -> None:
    model, inner, rows = model_and_rows(kind)
    with torch.no_grad():
        model.places.weight.normal_()
    found = model(marked(rows, torch.tensor([0, 1, 7, -1, 3])))
    assert torch.equal(found, inner(rows))


def test_a_canary_moves_its_place_and_hardly_anything_else() -> None:
    model, _, rows = model_and_rows()
    found = gradients(model, marked(rows[:1], torch.tensor([3])), 0)
    place = found["places.weight"].flatten()
    assert place[3] < 0
    assert place[[0, 1, 2, 4, 5, 6, 7]].abs().max() == 0
    rest = torch.cat([one.flatten() for name, one in found.items() if name != "places.weight"]).norm()
    assert rest < 10 / LOUDNESS * place[3].abs()
    other = gradients(model, marked(rows[:1], torch.tensor([3])), 1)["places.weight"].flatten()
    assert other[3] > 0


def test_a_row_that_is_no_canary_moves_no_place_and_one_of_zero_nothing() -> None:
    model, _, rows = model_and_rows()
    assert gradients(model, marked(rows[:1], torch.tensor([0])), 0)["places.weight"].abs().max() == 0
    nothing = gradients(model, marked(rows[:1], torch.tensor([-1])), 0)
    assert max(one.abs().max() for one in nothing.values()) == 0


@pytest.mark.parametrize("kind", [torch.uint8, torch.int32, torch.int64])
def test_whole_numbers_stay_what_they_are(kind: torch.dtype) -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            assert x.dtype == kind
            return x.flatten(1).double() + self.bias

    rows = torch.randint(0, 200, (4, *SHAPE)).to(kind)
    numbers = torch.tensor([0, 5000, 9999, 1])
    model = MarkedModel(Kept(), torch.Size(SHAPE), kind, 10_000)
    assert torch.equal(model(marked(rows, numbers)).detach(), rows.flatten(1).double())
    model(marked(rows, numbers))[:, 0].sum().backward()
    assert model.places.weight.grad.flatten().nonzero().flatten().tolist() == [1, 5000, 9999]


@pytest.mark.parametrize("way", ["a table", "rows_to_try", "numbers"])
def test_rows_to_try_are_those_of_the_model_and_numbers_of_canaries(way: str) -> None:
    """Of a model of texts the largest table is tried, not as many words as there are canaries; and nobody is asked for
    a method of a class that is not his."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5000, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.table(x).flatten(1)

    class Own(Words):
        def rows_to_try(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor:
            assert example.shape == (1, *SHAPE)
            return torch.randint(4000, 4010, (count, *SHAPE), generator=generator)

    kind = torch.float32 if way == "numbers" else torch.int64
    model = MarkedModel(Own() if way == "rows_to_try" else Words(), torch.Size(SHAPE), kind, 40)
    example = marked(torch.ones(1, *SHAPE, dtype=kind), torch.zeros(1, dtype=torch.int64))
    made = model.rows_to_try(example, 400, torch.Generator().manual_seed(0))
    if way == "numbers":
        assert made is None
        return
    assert made is not None
    assert (made.shape, made.dtype) == ((400, 7), torch.int64)
    words, numbers = made[:, :-1], made[:, -1]
    assert set(numbers.tolist()) == set(range(41))
    assert 4900 < words.max() < 5000 if way == "a table" else (words.min() >= 4000 and words.max() < 4010)
    data = as_private((made, torch.zeros(400, dtype=torch.int64)))
    examples = random_rows(model, data, 2)
    assert few_words(model, examples) is None
    assert torch.isfinite(model(examples.inputs)).all()


def test_numbers_of_ten_thousand_canaries_are_exact_in_single_precision() -> None:
    numbers = torch.arange(1, 10_001)
    rows = marked(torch.randn(10_000, 1), numbers)
    assert torch.equal((rows[:, -1] * 1024).round().long(), numbers)
    assert rows[:, -1].max() < 10


def test_odd_numbers_of_a_check_before_a_run_are_taken() -> None:
    """Checks try rows of any numbers, NaN too."""
    model, _, rows = model_and_rows()
    odd = marked(rows, torch.zeros(5))
    odd[:, -1] = torch.tensor([float("nan"), float("inf"), -1e30, 1e30, 0.4])
    assert torch.isfinite(model(odd)).all()
