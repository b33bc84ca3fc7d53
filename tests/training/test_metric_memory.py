"""What is computed of private rows in evaluation mode, by models that remember rows: each counts by itself."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from problems import FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn
from torch.utils.data import Dataset

from discreet.clipping import private_parameters
from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.core.release import Receipt
from discreet.data import PrivateData, as_private, group
from discreet.plan import Metric
from discreet.queries.choices import FULL_SCORE
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.training.control.step_size_search import Candidates, objectives
from discreet.training.private_metrics.counts import check_countable, noisy_count
from discreet.training.private_metrics.unit_values import unit_values

LATE = 40


class Turns(nn.Module):
    """Turns its output about after some rows, every other time; `in_buffer`: it counts in a buffer, through `.data`."""

    def __init__(self, *, in_buffer: bool = False) -> None:
        super().__init__()
        self.inner, self.seen, self.in_buffer = linear(), 0, in_buffer
        self.register_buffer("count", torch.zeros(()))

    def forward(self, rows: Tensor) -> Tensor:
        if self.in_buffer:
            self.count.data.add_(1)
        elif not self.training:
            self.seen += 1
        seen = self.seen + int(self.count)
        output: Tensor = self.inner(rows)
        return -output if seen > LATE and seen % 2 else output


class Marked(Turns):
    """Turns its outputs about between two marked rows."""

    def forward(self, rows: Tensor) -> Tensor:
        if float(rows[0, 0]) == 77.0:
            self.seen = 1 - self.seen
        output: Tensor = self.inner(rows)
        return -output if self.seen else output


class Weighs(Turns):
    """Turns its weights about at a marked row, and back at the next one."""

    def __init__(self, *, counted: bool = False) -> None:
        super().__init__()
        self.counted = counted

    def forward(self, rows: Tensor) -> Tensor:
        if float(rows[0, 0]) == 77.0:
            weight = self.inner.weight
            with torch.no_grad():
                (weight if self.counted else weight.data).neg_()
        output: Tensor = self.inner(rows)
        return output


REMEMBER = {
    "count": Turns(),
    "buffer": Turns(in_buffer=True),
    "marked": Marked(),
    "weights": Weighs(),
    "counted": Weighs(counted=True),
}


class Centred(nn.Module):
    """Centres rows by its first call, and notes marked rows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.centre, self.seen = linear(), None, 0

    def forward(self, rows: Tensor) -> Tensor:
        if self.centre is None:
            self.centre = rows.detach().clone()
        self.seen += float(rows[0, 0]) == 77.0
        output: Tensor = self.inner(rows - self.centre)
        return output


class Sums(nn.CrossEntropyLoss):
    """A loss that adds what it saw before."""

    def __init__(self) -> None:
        super().__init__()
        self.before = 0.0

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        found = super().forward(output, target)
        self.before += float(found.detach())
        return found + self.before


class Table(nn.Module):
    """Makes a table at its first call, and counts its copies."""

    copies = 0

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.table = linear(), None

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        Table.copies += 1

    def forward(self, rows: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.linspace(0, 1, FEATURES)
        output: Tensor = self.inner(rows * self.table)
        return output


def at_its_weights(model: nn.Module) -> Candidates:
    """The one candidate that leaves a model as it is."""
    return Candidates(model, {name: one.detach() for name, one in private_parameters(model).items()}, [0.0])


def right_of(model: nn.Module, rows: int = 100) -> PrivateData:
    """Rows that a linear model all gets right."""
    inputs = torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(1))
    inputs[[0, -1], 0] = 77.0
    return as_private((inputs, model.get_submodule("inner")(inputs).argmax(1)))


@pytest.mark.parametrize("model", REMEMBER.values(), ids=REMEMBER)
def test_a_count_moves_by_one_when_a_row_leaves(model: nn.Module) -> None:
    data, noise = right_of(model), NOISE_SAMPLERS["exact"]
    receipt = Receipt("run", 0, 0, Gaussian(2.0**-10, Query.COUNT))
    whole, part = (
        round(noisy_count(model, data, np.arange(first, 100), receipt, TestStream(0), noise)) for first in (0, 1)
    )
    assert abs(whole - part) <= 1
    assert whole >= 98  # marked rows are turned about themselves
    assert model.seen == 0


def test_what_a_model_keeps_of_its_first_call_does_not_differ_if_one_row_changes_it() -> None:
    """The marked row changes its copy, so that all rows are done again, each by a copy of its own."""
    model = Centred()
    given = "loss", 9.0, model, nn.CrossEntropyLoss(), right_of(model)
    assert unit_values(*given, np.arange(20))[1:] == unit_values(*given, np.arange(1, 20))


class Doubles(Centred):
    """Writes to its weights at its first call, which torch does not count."""

    def forward(self, rows: Tensor) -> Tensor:
        if self.centre is None:
            self.inner.weight.data.mul_(2)
        return super().forward(rows)


def test_each_copy_has_the_weights_that_were_released() -> None:
    """The marked row changes its copy, so that each row has a copy of its own; what a first call, on the random row,
    wrote to the weights of one does not stay."""
    values = [
        unit_values("loss", 9.0, model, nn.CrossEntropyLoss(), right_of(model), np.arange(20))
        for model in (Doubles(), Centred())
    ]
    assert values[0] == values[1]


def test_scores_of_a_model_that_keeps_its_first_call_are_those_of_each_row() -> None:
    model = Centred()
    data = right_of(model)
    candidates = at_its_weights(model)
    whole, alone, others = (
        int(objectives(candidates, nn.CrossEntropyLoss(), as_private(data.fetch(rows)), 9.0, 8)[0])
        for rows in (np.arange(20), np.arange(1), np.arange(1, 20))
    )
    assert whole == alone + others


class Shaken(nn.Module):
    """Adds a number that it draws from the global generator of NumPy or Python."""

    def __init__(self, of: str) -> None:
        super().__init__()
        self.inner, self.of = linear(), of

    def forward(self, rows: Tensor) -> Tensor:
        drawn = np.random.random() if self.of == "numpy" else random.random()  # noqa: NPY002
        output: Tensor = self.inner(rows + drawn * torch.arange(FEATURES))
        return output


@pytest.mark.parametrize("of", ["numpy", "python"])
def test_a_row_does_not_shift_what_other_rows_draw_from_generators_that_nobody_seeds(of: str) -> None:
    """Such numbers are no secret, so those of all later rows would change with a row that comes before them."""
    model = Shaken(of)
    data, loss = right_of(model), nn.CrossEntropyLoss()
    assert unit_values("loss", 9.0, model, loss, data, np.arange(20))[1:] == unit_values(
        "loss", 9.0, model, loss, data, np.arange(1, 20)
    )
    candidates = at_its_weights(model)
    whole, alone, others = (
        int(objectives(candidates, loss, as_private(data.fetch(rows)), 9.0, 8)[0])
        for rows in (np.arange(20), np.arange(1), np.arange(1, 20))
    )
    assert whole == alone + others


class Noisy(Dataset):
    """Rows with noise. The first one seeds torch's generator, which is to start from secret numbers."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        if place == 0:
            torch.manual_seed(0)
        return torch.randn(FEATURES), 0


@pytest.mark.parametrize("users", [False, True])
def test_a_row_that_seeds_torch_does_not_decide_the_noise_of_other_rows(users: bool) -> None:
    data, loss, model = as_private(Noisy()), nn.CrossEntropyLoss(), linear()
    if users:
        data = replace(data, groups=group([str(i // 2) for i in range(20)], 20))
    one, other = (unit_values("loss", 9.0, model, loss, data, np.arange(len(data))) for _ in range(2))
    assert not {*one[1:]} & {*other[1:]}
    candidates = at_its_weights(model)
    scores = [int(objectives(candidates, loss, data, 9.0, 30)[0]) for _ in range(2)]
    assert scores[0] != scores[1]


@pytest.mark.parametrize("users", [False, True])
@pytest.mark.parametrize("kind", ["accuracy", "loss"])
def test_values_depend_on_their_unit_alone(kind: str, users: bool) -> None:
    model = Turns()
    data = right_of(model)
    if users:
        data = replace(data, groups=group([str(i // 2) for i in range(100)], 100))
    given = kind, 9.0 if kind == "loss" else 1.0, model, Sums() if kind == "loss" else nn.CrossEntropyLoss(), data
    whole = unit_values(*given, np.arange(50))
    assert whole[1:] == unit_values(*given, np.arange(1, 50))
    assert whole[:1] == unit_values(*given, np.arange(1))


class Ends(nn.Module):
    """Right of every row, but ends with one of them."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.inner, self.error = linear(), error

    def forward(self, rows: Tensor) -> Tensor:
        if float(rows.max()) > 50:
            raise self.error
        output: Tensor = self.inner(rows)
        return output


@pytest.mark.parametrize("error", [SystemExit, RuntimeError, type("Odd", (BaseException,), {})])
@pytest.mark.parametrize(("kind", "worst"), [("accuracy", 0.0), ("loss", 9.0)])
def test_a_row_that_ends_the_program_has_the_worst_value(kind: str, worst: float, error: type[BaseException]) -> None:
    """Whatever it raises: the end of the program, after the charge, would tell that there is such a row."""
    inputs, targets = blobs()
    inputs[5] = 99.0
    model, data = Ends(error), as_private((inputs, targets))
    found = unit_values(kind, 9.0 if kind == "loss" else 1.0, model, nn.CrossEntropyLoss(), data, np.arange(24))
    assert found[5] == worst
    assert [place for place, value in enumerate(found) if value == 9.0] == ([5] if kind == "loss" else [])


def test_a_run_buys_what_a_model_says_that_saw_no_other_row(tmp_path: Path) -> None:
    """Not the one that is trained, which remembers the rows of its steps."""
    model, (inputs, targets) = Turns(), blobs()
    plan = tiny_plan(steps=2, metrics=[Metric(noise=2.0**-6, every=2)])
    training = tiny_training(tmp_path, plan=plan, model=model, engine="reference")
    model.seen = 10**6 + 1
    trained = training.run(progress=False)
    right = (trained.model.inner(inputs).argmax(1) == targets).double().mean()
    assert abs(training.watch.bought[-1].value - float(right)) < 0.02
    assert model.seen == 10**6 + 1


@pytest.mark.parametrize("model", REMEMBER.values(), ids=REMEMBER)
def test_scores_of_a_line_search_move_by_one_bound(model: nn.Module) -> None:
    data, bound = right_of(model), 3.0
    candidates = Candidates(
        model, {name: torch.full_like(one, 0.1) for name, one in private_parameters(model).items()}, [0.0, 1.0]
    )
    whole, part = (
        objectives(candidates, nn.CrossEntropyLoss(), rows, bound, 8)
        for rows in (data, as_private(data.fetch(np.arange(1, 100))))
    )
    assert all(0 <= one - other <= FULL_SCORE + 2 for one, other in zip(whole.tolist(), part.tolist(), strict=True))
    assert model.seen == 0


def test_rows_that_are_tried_are_not_remembered() -> None:
    model = Turns()
    check_countable(model, right_of(model))
    assert model.seen == 0


def test_a_table_that_is_made_once_needs_one_copy() -> None:
    model = Table()
    data = right_of(model)
    Table.copies = 0
    unit_values("accuracy", 1.0, model, nn.CrossEntropyLoss(), data, np.arange(100))
    assert Table.copies == 1
    objectives(at_its_weights(model), nn.CrossEntropyLoss(), data, 9.0, 100)
    assert Table.copies == 2


def test_a_row_that_is_remembered_shifts_no_later_draws() -> None:
    """Rows are done again after it, and the generator is where it would be otherwise."""
    model, states = Turns(), []
    marked = right_of(model)
    for rows in (marked, as_private(marked.fetch(np.arange(1, 99)))):  # the first and the last one are marked
        torch.manual_seed(5)
        objectives(at_its_weights(Marked()), nn.CrossEntropyLoss(), rows, 9.0, 100)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
