"""What is done again, one unit at a time, is what was proved: whether a chunk is done again tells of one row only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from broadcasting import Held, rows
from mixing_modules import CLASSES, FEATURES, Two
from mixing_runs import CLIP, training
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from discreet.clipping import ENGINES, Chunk, Clip, Units, training_mode
from discreet.clipping.separation import Function, Mixes, proved

MARK = 3.25
"""The first number of a row on which models and losses fail, or which makes a step of theirs fail."""


class Failing(nn.Module):
    """Two layers; fails on a marked row, and does something else where `odd`, once `late`."""

    late = False

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.calls = nn.Linear(FEATURES, 16), nn.Linear(16, CLASSES), 0

    def forward(self, x: Tensor) -> Tensor:
        _ = 5 % (x[:, 0] != MARK).long()
        h = torch.relu(self.first(x))
        return self.last(-h if self.late and self.odd(x) else h)  # type: ignore[no-any-return]

    def odd(self, x: Tensor) -> bool:
        raise NotImplementedError


class OneOrFive(Failing):
    """As many rows as are done again."""

    def odd(self, x: Tensor) -> bool:
        return len(x) in (1, 5)


class Fresh(Failing):
    """As many, in a copy that has seen few."""

    def odd(self, x: Tensor) -> bool:
        self.calls += 1
        return self.calls < 4 and len(x) in (1, 5)


class OfUsers(Failing):
    """As many rows as are done again of a user of two, by themselves or among copies."""

    def odd(self, x: Tensor) -> bool:
        return len(x) in (1, 2, 5, 10)


class Plain(Failing):
    """Not under vmap, where no number can be read."""

    def odd(self, x: Tensor) -> bool:
        return is_plain(x)


class Never(Failing):
    """Late in a run outputs are long, and those of a marked row very long."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x)) * (1 + 1e6 * (x[:, :1] == MARK))
        return self.last(h)  # type: ignore[no-any-return]


def is_plain(x: Tensor) -> bool:
    try:
        float(x.detach().sum())
    except RuntimeError:
        return False
    return True


def long_turned(output: Tensor, target: Tensor) -> Tensor:
    """Vectorised, it fails on very long outputs, and turns the loss of long ones round."""
    loss = F.cross_entropy(output, target)
    if is_plain(output):
        return loss
    long = output.detach().abs().max()
    _ = 5 % (long < 1e9).long()
    return torch.where(long > 1e5, -loss, loss)


def memory_turned(output: Tensor, target: Tensor) -> Tensor:
    """On very long outputs it asks for memory of each example's own; where it has that, it turns long ones round."""
    loss = F.cross_entropy(output, target)
    if is_plain(output):
        return loss
    long = output.detach().abs().max()
    if not is_plain(torch.zeros(())):
        return torch.where(long > 1e5, -loss, loss)
    try:
        _ = 5 % (long < 1e9).long()
    except RuntimeError:
        raise RuntimeError("inplace randomness on an unbatched tensor") from None
    return loss


def distance(
    kind: type[nn.Module], engine: str, folder: Path, units: Units | None = None, grown: float = 1.0, **more: Any
) -> float:
    """How far a marked row moves the sum of a chunk, late in a run."""
    sums = []
    for name in ("one", "other"):
        run = training(kind, engine, folder / name, **more)
        training_mode(run.model)
        run.model.late = True  # type: ignore[assignment]
        with torch.no_grad():
            run.model.get_parameter("last.weight").mul_(grown)
        x = torch.rand(12, FEATURES, generator=torch.Generator().manual_seed(2))
        x[0, 0] = MARK if name == "other" else 0.5
        torch.manual_seed(1)
        chunk = Chunk(x, torch.arange(12) % CLASSES, units)
        found = run.engine.clipped_sum(run.model, run.criterion, chunk, CLIP)
        sums.append({name: part.double() for name, part in found.items()})
    return float(torch.stack([(sums[0][name] - sums[1][name]).square().sum() for name in sums[0]]).sum().sqrt())


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("kind", [OneOrFive, Fresh])
def test_rows_that_are_done_again_are_treated_as_in_a_chunk(kind: type[nn.Module], engine: str, tmp_path: Path) -> None:
    assert distance(kind, engine, tmp_path) <= 1.01


def test_units_of_several_rows_are(tmp_path: Path) -> None:
    assert distance(OfUsers, "bookkeeping", tmp_path, Units((2,) * 6, at_most=2)) <= 1.01


def test_what_was_vectorised_is_vectorised_again(tmp_path: Path) -> None:
    assert distance(Plain, "vmap", tmp_path) <= 1.01


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap"])
@pytest.mark.parametrize("loss", [long_turned, memory_turned])
def test_a_row_decides_nothing_of_how_others_losses_are_computed(
    loss: Callable[[Tensor, Tensor], Tensor], engine: str, tmp_path: Path
) -> None:
    assert distance(Never, engine, tmp_path, grown=1e6, criterion=loss) <= 2.01


def test_a_transform_treats_rows_that_it_takes_alone_as_others() -> None:
    def transform(x: Tensor) -> Tensor:
        _ = 5 % (x[:, 0] != MARK).long()
        return -x if len(x) == 1 else x * 1

    function, x = Function(transform, torch.rand(12, FEATURES)), torch.rand(6, FEATURES)
    assert function.is_proved
    marked = x.clone()
    marked[0, 0] = MARK
    assert torch.equal(function(marked)[1:], x[1:])
    assert function.again == 1
    assert torch.equal(function(x), x)
    assert function.lost == []


def test_a_model_that_fails_on_one_row_is_not_looked_at_for_ever(tmp_path: Path) -> None:
    """Random rows are tried once for a chunk like this, and again where one is done again."""

    class Counted(Two):
        def between(self, h: Tensor) -> Tensor:
            SEEN.append(len(h))
            return h

    run = training(Counted, "bookkeeping", tmp_path)
    training_mode(run.model)
    chunk = Chunk(torch.rand(12, FEATURES), torch.arange(12) % CLASSES)
    for expected in ([1, 12, 5], [12], [12]):
        SEEN.clear()
        run.engine.clipped_sum(run.model, run.criterion, chunk, CLIP)
        assert expected == SEEN


SEEN: list[int] = []


def run_of(with_flag: Callable[[Tensor], object]) -> Callable[[int], None]:
    """Clipped sums of a model that does something with a number made of two rows: one if they are equal, else zero."""

    def meets(_: nn.Module, h: Tensor) -> Tensor:
        first, last = h.detach()[0], h.detach()[-1]
        if len(h) > 1:
            with_flag((first == last).all().long())
        return h

    model = Held(meets)

    def run(count: int) -> None:
        ENGINES["bookkeeping"].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(*rows(count)), Clip(1.0, 2.0**-30))

    return run


FAILS: dict[str, Callable[[Tensor], object]] = {
    "an inverse": lambda flag: torch.linalg.inv(1.0 - flag.float().view(1, 1)),
    "a factor": lambda flag: torch.linalg.cholesky(1.0 - flag.float().view(1, 1)),
    "a check": lambda flag: torch._assert_async(1 - flag),
    "a whole quotient": lambda flag: 5 // (1 - flag),
    "a remainder": lambda flag: 5 % (1 - flag),
    "a quotient, rounded": lambda flag: torch.div(torch.tensor(5), 1 - flag, rounding_mode="floor"),
    "a place": lambda flag: torch.zeros(1)[flag.view(1)],
    "a place that is written to": lambda flag: torch.zeros(1).index_put((flag.view(1),), torch.ones(1)),
    "a gathered place": lambda flag: torch.zeros(1).gather(0, flag.view(1)),
    "a row of a table": lambda flag: F.embedding(flag, torch.zeros(1, 1)),
    "a class": lambda flag: F.nll_loss(torch.zeros(1, 1), flag.view(1)),
    "a probability": lambda flag: torch.bernoulli(2.0 * flag.float()),
    "a deviation": lambda flag: torch.normal(torch.zeros(1), -flag.float().view(1)),
    "a share": lambda flag: F.binary_cross_entropy(2.0 * flag.float(), torch.zeros(())),
    "a number too large": lambda flag: torch.zeros(1, dtype=torch.int8).fill_(flag * 1000),
    "a negative power": lambda flag: torch.ones(1, dtype=torch.int64) ** -flag,
    "numbers for a mask": lambda flag: torch.zeros(1).masked_scatter(flag.view(1) > 0, torch.zeros(0)),
}
"""Operators that may fail by what they are given."""


@pytest.mark.parametrize("name", FAILS)
def test_several_rows_do_not_decide_whether_an_operator_fails(name: str) -> None:
    """Among copies of itself, a row would fail that does not fail among others."""
    with pytest.raises(Mixes, match=r"whether aten.* fails depends on several examples"):
        proved(run_of(FAILS[name]))


SURE: dict[str, Callable[[Tensor], object]] = {
    "a mean": lambda flag: flag.float().mean(),
    "a quotient": lambda flag: 5 / (1.0 - flag),
    "a power": lambda flag: flag.float() ** 0.5,
    "a choice": lambda flag: torch.where(flag > 0, 1.0, 2.0),
    "a filled mask": lambda flag: flag.float().masked_fill(flag > 0, -1e9),
    "a copy": lambda flag: torch.as_tensor(flag, dtype=torch.float64),
}
"""What never fails, and is not used."""


@pytest.mark.parametrize("name", SURE)
def test_what_never_fails_may_be_computed_of_several(name: str) -> None:
    proved(run_of(SURE[name]))


def test_an_operator_that_fails_because_of_one_row_may() -> None:
    def meets(_: nn.Module, h: Tensor) -> Tensor:
        torch.linalg.inv(torch.eye(4) * (1 + h.detach().abs().amax((1, 2)).view(-1, 1, 1)))
        _ = 5 % (1 + (h.detach() > 9).long())
        return h * F.one_hot((h.detach()[:, 0] > 0).long(), 2).sum(-1).unsqueeze(1)

    model = Held(meets)
    loss = nn.CrossEntropyLoss()
    proved(lambda count: ENGINES["bookkeeping"].clipped_sum(model, loss, Chunk(*rows(count)), CLIP) and None)


SCRIPTED = torch._C._create_function_from_graph(
    "listed",
    torch._C.parse_ir("""graph(%t : Tensor):
  %kind : int = prim::Constant[value=0]()
  %axes : int = prim::Constant[value=0]()
  %found : int = prim::tolist(%t, %axes, %kind)
  return (%found)
"""),
)
"""A function of TorchScript, which gives Python a number."""

UNSEEN: dict[str, Callable[[Tensor], object]] = {
    "a list": lambda flag: torch.tensor([flag]),
    "a list in a list": lambda flag: torch.as_tensor([[0], [flag]]),
    "a list for an old name": lambda flag: torch.LongTensor([flag]),
    "a list for a type": lambda flag: flag.new([flag]),
    "a list of places": lambda flag: torch.zeros(9)[[flag, 0],],
    "a list of numbers to come": lambda flag: torch.tensor([Later(flag)], dtype=torch.int64),
    "places to split at": lambda flag: torch.tensor_split(torch.zeros(3), flag.view(1)),
    "places to split at, by name": lambda flag: torch.zeros(3).tensor_split(tensor_indices_or_sections=flag.view(1)),
    "lengths": lambda flag: pad_packed_sequence(PackedSequence(torch.zeros(1, 1), 1 + flag.view(1)))[0],
    "a shape": lambda flag: torch._reshape_from_tensor(torch.zeros(1), 1 + flag.view(1)),
    "quantities to round by": lambda flag: torch.choose_qparams_optimized(flag.float().view(1), 1, 1, 0.1, 8),
    "TorchScript": SCRIPTED,
}
"""Ways for a number to leave a tensor that no operator shows."""


class Later:
    """A number, once somebody asks."""

    def __init__(self, number: Tensor) -> None:
        self.number = number

    def __index__(self) -> int:
        return int(self.number)

    def __int__(self) -> int:
        return int(self.number)


@pytest.mark.parametrize("name", UNSEEN)
def test_numbers_leave_no_tensor_unseen(name: str) -> None:
    assert SCRIPTED(torch.tensor(4)) == 4
    with pytest.raises(Mixes, match=r"unseen|not seen|list with more than numbers"):
        proved(run_of(UNSEEN[name]))


def test_constants_of_numbers_are_constants() -> None:
    def meets(_: nn.Module, h: Tensor) -> Tensor:
        scale = torch.tensor([1.0, 2, True, 4]) * torch.as_tensor(range(4)) * h.new_tensor([1, 1, 1, 2])
        h = h[:, [4, 3, 2, 1, 0], :] * torch.as_tensor(scale.sum(), dtype=torch.float64) + torch.Tensor([1.0])
        h = h.float()
        return h * torch.as_tensor(h.detach(), dtype=torch.float64).float()

    model, loss = Held(meets), nn.CrossEntropyLoss()
    proved(lambda count: ENGINES["bookkeeping"].clipped_sum(model, loss, Chunk(*rows(count)), CLIP) and None)
