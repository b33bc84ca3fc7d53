"""Laws of every engine: they agree, chunks do not matter, and the model is left as it was.

Of the engine `exact` more is asked: its sums are whole numbers of grid steps, the same in any order and any chunks,
and no example moves them by more than the clip norm, in integer arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from promises import exactly, units_of
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Chunk, Clip, private_parameters
from discreet.clipping.digests import state_digests

CLIP = Clip(0.5, 2.0**-30)
UNROUNDED = Clip(0.5, 2.0**-120)
"""So fine that rounding to it changes nothing."""
CLASSES = 3


class TiedMlp(nn.Module):
    """Two hidden layers that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, CLASSES)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class UnusedParameter(nn.Module):
    """A parameter that the output does not depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.idle = nn.Linear(4, CLASSES), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class Temperature(nn.Module):
    """A parameter without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.scale = nn.Linear(4, CLASSES), nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.head(x)


class Text(nn.Module):
    """Embedding, layer norm, mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.embed(x)).mean(1))


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES))
    model[0].requires_grad_(False)
    return model


def conv() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 25, CLASSES)
    )


def floats(*shape: int) -> Callable[[int], Tensor]:
    return lambda rows: torch.randn(rows, *shape, generator=torch.Generator().manual_seed(rows)) * 2


def tokens(rows: int) -> Tensor:
    return torch.randint(0, 11, (rows, 7), generator=torch.Generator().manual_seed(rows))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {
    "linear": (lambda: nn.Linear(4, CLASSES), floats(4)),
    "tied MLP": (TiedMlp, floats(4)),
    "conv + GroupNorm": (conv, floats(1, 5, 5)),
    "embedding + LayerNorm": (Text, tokens),
    "frozen layer": (frozen, floats(4)),
    "dropout 0": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.0), nn.Linear(5, CLASSES)), floats(4)),
    "unused parameter": (UnusedParameter, floats(4)),
    "scalar parameter": (Temperature, floats(4)),
}


def problem(name: str, rows: int) -> tuple[nn.Module, Tensor, Tensor]:
    build, inputs = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = build()
    return model, inputs(rows), torch.arange(rows) % CLASSES


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("name", MODELS)
def test_engines_agree(name: str, rows: int) -> None:
    model, inputs, targets = problem(name, rows)
    sums = {
        key: engine.clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)
        for key, engine in ENGINES.items()
    }
    for one, other in itertools.pairwise(sums.values()):
        assert list(one) == list(other) == list(private_parameters(model))
        for parameter in one:
            assert one[parameter].dtype in (torch.float32, torch.float64)
            torch.testing.assert_close(one[parameter].double(), other[parameter].double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_agree_with_plain_autograd_where_nothing_is_clipped(engine: str) -> None:
    model, inputs, targets = problem("tied MLP", 5)
    clip = Clip(1e6, 2.0**-30)
    sums = ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), clip)
    loss = nn.CrossEntropyLoss(reduction="sum")(model(inputs), targets)
    for one, plain in zip(sums.values(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
        torch.testing.assert_close(one.float(), plain, rtol=1e-5, atol=1e-5)


SPLITS = [(1, 5), (2, 4), (3, 3), (5, 1), (1, 2, 3), (1, 1, 1, 1, 1, 1)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap", "reference"])
def test_any_split_into_chunks_gives_the_same_sum(engine: str, name: str) -> None:
    # In double precision: in single, matrix products round differently with their size.
    model, inputs, targets = problem(name, 6)
    model = model.double()
    inputs = inputs.double() if inputs.is_floating_point() else inputs

    def total(sizes: tuple[int, ...]) -> dict[str, Tensor]:
        accumulator = Accumulator(private_parameters(model))
        for x, y in zip(torch.split(inputs, list(sizes)), torch.split(targets, list(sizes)), strict=True):
            accumulator.add(ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(x, y), UNROUNDED))
        tensors = accumulator.total(ENGINES[engine], UNROUNDED, len(inputs)).tensors
        return {key: torch.from_numpy(array) for key, array in tensors.items()}

    whole = total((6,))
    for sizes in SPLITS:
        for key, part in total(sizes).items():
            torch.testing.assert_close(part, whole[key], rtol=1e-9, atol=1e-12)


def exact_units(model: nn.Module, inputs: Tensor, targets: Tensor, sizes: tuple[int, ...], clip: Clip) -> list[int]:
    """The sum of the engine `exact`, chunk by chunk, in grid steps."""
    accumulator = Accumulator(private_parameters(model))
    for x, y in zip(torch.split(inputs, list(sizes)), torch.split(targets, list(sizes)), strict=True):
        accumulator.add(ENGINES["exact"].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(x, y), clip))
    total = accumulator.total(ENGINES["exact"], clip, len(inputs))
    assert total.sensitivity == clip.norm
    return units_of(total.tensors, clip.grid)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MODELS)
def test_any_split_and_any_order_gives_the_same_exact_sum_bit_for_bit(name: str, dtype: torch.dtype) -> None:
    model, inputs, targets = problem(name, 6)
    model = model.to(dtype)
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    whole = exact_units(model, inputs, targets, (6,), CLIP)
    for number, sizes in enumerate(SPLITS):
        assert exact_units(model, inputs, targets, sizes, CLIP) == whole
        order = torch.randperm(6, generator=torch.Generator().manual_seed(number))
        assert exact_units(model, inputs[order], targets[order], sizes, CLIP) == whole


@pytest.mark.parametrize("clip", [CLIP, Clip(0.01, 2.0**-12), Clip(3e-5, 2.0**-40)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_no_example_moves_an_exact_sum_by_more_than_the_clip_norm_in_integers(name: str, clip: Clip) -> None:
    model, inputs, targets = problem(name, 5)
    whole = exact_units(model, inputs, targets, (5,), clip)
    for row in range(5):
        keep = torch.tensor([i for i in range(5) if i != row])
        rest = exact_units(model, inputs[keep], targets[keep], (3, 1), clip)
        moved = [a - b for a, b in zip(whole, rest, strict=True)]
        assert moved == exact_units(model, inputs[row : row + 1], targets[row : row + 1], (1,), clip)
        assert sum(unit**2 for unit in moved) <= (exactly(clip.norm) / exactly(clip.grid)) ** 2


@pytest.mark.parametrize("name", MODELS)
def test_rounding_and_chunks_stay_within_the_sensitivity_of_a_fast_engine(name: str) -> None:
    """In single precision: neighbouring sums, cut into chunks differently, in rational arithmetic."""
    model, inputs, targets = problem(name, 6)

    def units(rows: list[int], sizes: tuple[int, ...]) -> list[int]:
        accumulator = Accumulator(private_parameters(model))
        x, y = inputs[rows], targets[rows]
        for a, b in zip(torch.split(x, list(sizes)), torch.split(y, list(sizes)), strict=True):
            accumulator.add(ENGINES["vmap"].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(a, b), CLIP))
        total = accumulator.total(ENGINES["vmap"], CLIP, largest_batch=6)
        assert total.sensitivity > CLIP.norm
        sensitivity.append(total.sensitivity)
        return units_of(total.tensors, CLIP.grid)

    sensitivity: list[float] = []
    whole = units(list(range(6)), (6,))
    for row in range(6):
        rest = units([i for i in range(6) if i != row], (2, 3))
        moved = sum((a - b) ** 2 for a, b in zip(whole, rest, strict=True))
        assert moved * exactly(CLIP.grid) ** 2 <= exactly(min(sensitivity)) ** 2


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_leaves_the_model_as_it_was(engine: str, name: str, training: bool) -> None:
    model, inputs, targets = problem(name, 3)
    model.register_buffer("aside", torch.arange(3.0))
    model.train(training)
    before = state_digests(model)
    parameters = dict(model.named_parameters())
    marker = torch.ones_like(next(iter(parameters.values())))
    next(iter(parameters.values())).grad = marker
    ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)
    assert state_digests(model) == before
    assert dict(model.named_parameters()).keys() == parameters.keys()
    assert all(model.get_parameter(key) is parameter for key, parameter in parameters.items())
    first, *others = parameters.values()
    assert first.grad is marker
    assert torch.equal(marker, torch.ones_like(marker))
    assert all(parameter.grad is None for parameter in others)
    assert all(module.training is training for module in model.modules())
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())


@pytest.mark.parametrize("engine", ENGINES)
def test_the_reduction_of_the_criterion_does_not_matter(engine: str) -> None:
    model, inputs, targets = problem("linear", 5)
    results = [
        ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(reduction=reduction), Chunk(inputs, targets), CLIP)
        for reduction in ("mean", "sum", "none")
    ]
    for result in results[1:]:
        assert all(torch.equal(result[key], results[0][key]) for key in result)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_example_with_nan_input_contributes_nothing(engine: str) -> None:
    model, inputs, targets = problem("conv + GroupNorm", 4)
    inputs[2] = float("nan")
    keep = torch.tensor([0, 1, 3])
    whole = ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)
    rest = ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs[keep], targets[keep]), CLIP)
    for key in whole:
        torch.testing.assert_close(whole[key], rest[key], rtol=1e-5, atol=1e-6)
