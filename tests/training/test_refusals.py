"""What `Training` refuses before anything is charged."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from discreet import InputError, PrivacyViolation
from discreet.clipping import Findings
from discreet.core.errors import LedgerError, UnsupportedModel
from discreet.randomness import TestStream


class Endless(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield torch.zeros(FEATURES), torch.tensor(0)


class Lengthless(Dataset[tuple[Tensor, Tensor]]):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(FEATURES), torch.tensor(0)


def with_value(part: int, row: int, value: float) -> tuple[Tensor, Tensor]:
    inputs, targets = blobs()
    if part == 0:
        inputs[row, 1] = value
    else:
        targets[row] = int(value)
    return inputs, targets


def regression(row: int, value: float) -> tuple[Tensor, Tensor]:
    inputs, _ = blobs()
    targets = torch.zeros(len(inputs), 3)
    targets[row, 2] = value
    return inputs, targets


BAD_DATA: dict[str, tuple[Any, str]] = {
    "loader": (DataLoader(TensorDataset(*blobs())), "DataLoader"),
    "iterable": (Endless(), "IterableDataset"),
    "without a length": (Lengthless(), "map-style"),
    "list": ([1, 2], "list"),
    "unequal": ((torch.zeros(3, FEATURES), torch.zeros(2)), "fewer targets than inputs; give one for each"),
    "one target": ((torch.zeros(3, FEATURES), torch.tensor(1)), "a single number as its targets"),
    "three tensors": (TensorDataset(torch.zeros(3, FEATURES), torch.zeros(3), torch.zeros(3)), "pair"),
    "one tensor": (TensorDataset(torch.zeros(3, FEATURES)), "pair"),
    "empty": ((torch.zeros(0, FEATURES), torch.zeros(0, dtype=torch.int64)), "empty"),
    "NaN feature": (with_value(0, 17, math.nan), "feature in row 17"),
    "infinite feature": (with_value(0, 0, math.inf), "feature in row 0"),
    "label too large": (with_value(1, 5, 3), "label 3 in row 5 .*0 to 2; number the classes from 0"),
    "label below zero": (
        with_value(1, 23, -1),
        "label -1 in row 23 .*counted from 0.*; leave out rows without a label",
    ),
    "wrong width": ((torch.zeros(5, FEATURES + 1), torch.zeros(5, dtype=torch.int64)), r"shape \(5,\)"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_refused_before_anything_is_charged(tmp_path: Path, case: str) -> None:
    data, words = BAD_DATA[case]
    with pytest.raises(InputError, match=words) as refusal:
        tiny_training(tmp_path, data=data).run()
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("every", [0, -3, 2.5])
def test_a_bad_evaluation_interval_is_refused_before_anything_is_charged(tmp_path: Path, every: float) -> None:
    with pytest.raises(InputError, match="evaluate_every"):
        tiny_training(tmp_path).run(evaluate_every=every)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_quarter_more_rows_than_declared_are_admitted(tmp_path: Path) -> None:
    assert tiny_training(tmp_path, plan=tiny_plan(population=20, batch=12)).run().charged_steps == 7  # 24 <= 25


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_target_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    with pytest.raises(InputError, match="target in row 9"):
        tiny_training(tmp_path, data=regression(9, value), criterion=nn.MSELoss()).run()
    assert list(tmp_path.iterdir()) == []


def test_a_late_row_of_much_data_is_named_correctly(tmp_path: Path) -> None:
    inputs, targets = blobs(9000)
    targets[8191] = 7
    with pytest.raises(InputError, match="label 7 in row 8191"):
        tiny_training(tmp_path, data=(inputs, targets), plan=tiny_plan(population=9000))


@pytest.mark.parametrize(
    ("public", "words"),
    [
        ((torch.zeros(0, FEATURES), torch.zeros(0, dtype=torch.int64)), "public test: .*empty"),
        ((torch.zeros(2, FEATURES), torch.tensor([0, 3])), "public test: .*label 3"),
        ((torch.full((2, FEATURES), math.nan), torch.tensor([0, 1])), "public test: .*NaN"),
    ],
)
def test_bad_public_data_is_refused_before_anything_is_charged(
    tmp_path: Path, public: tuple[Tensor, Tensor], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        tiny_training(tmp_path, public_test=public).run()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "magic"}, "engine 'magic'; known: auto, bookkeeping, ghost, vmap, reference, exact"),
        ({"noise": "pink"}, "noise 'pink'; known: fast, exact"),
        ({"resume": True, "run_dir": None}, "name its folder"),
        ({"dataset_id": "patients"}, "--ledger"),
        (
            {"plan": tiny_plan(population=19)},
            r"more rows than the 23 that the declared population allows \(19, with a quarter more as the true number",
        ),
        ({"physical_batch": 0}, "physical_batch"),
        ({"physical_batch": 2.5}, "physical_batch"),
        ({"model": nn.Sequential(nn.Linear(FEATURES, 3), nn.BatchNorm1d(3))}, "GroupNorm"),
        ({"optimizer": torch.optim.SGD(linear().parameters(), lr=0.1)}, "optimizer lacks"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_charged(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        tiny_training(tmp_path, **changes).run()
    assert list(tmp_path.iterdir()) == []


def test_a_plan_without_a_theorem_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="replace_one"):
        tiny_training(tmp_path, plan=tiny_plan(adjacency="replace_one")).run()
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match="exists already"):
        tiny_training(tmp_path).run()
    assert list((tmp_path / "run").iterdir()) == []


class ActNorm(nn.Module):
    """Sets its scale from the first input it sees, as normalising flows do."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.scale = linear(), nn.Parameter(torch.zeros(FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        if not self.scale.any():
            with torch.no_grad():
                self.scale.copy_(x.detach().abs().mean(0))
        return self.head(x / self.scale)


class LastSeen(nn.Module):
    """Keeps the first input it sees in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear()
        self.register_buffer("first", torch.zeros(FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        if not self.first.any():
            self.first.copy_(x[0])
        return self.head(x)


@pytest.mark.parametrize("model", [ActNorm(), LastSeen()], ids=["parameter", "buffer"])
def test_a_model_that_takes_its_initial_state_from_private_data_is_refused(
    tmp_path: Path, model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnsupportedModel, match="initialise it on public input"):
        tiny_training(tmp_path, model=model, engine="reference")
    monkeypatch.setattr("discreet.training.preflight.model_check.tried", lambda *_: Findings())
    with pytest.raises(PrivacyViolation, match="initialise it on public input"):  # seen on the data itself
        tiny_training(tmp_path, model=model, engine="reference")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_was_trained_meanwhile_is_refused(tmp_path: Path) -> None:
    # The second certificate would declare a public initial state that is the first run's release.
    model = linear()
    first = tiny_training(tmp_path / "a", model=model)
    second = tiny_training(tmp_path / "b", model=model, stream=TestStream(8))
    first.run()
    with pytest.raises(PrivacyViolation, match="make a new one"):
        second.run()
    assert not (tmp_path / "b").exists()


class Doubled(TensorDataset):
    """A TensorDataset whose own __getitem__ must be respected."""

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        inputs, targets = super().__getitem__(index)
        return 2 * inputs, targets


def test_a_subclass_of_tensor_dataset_is_read_through_its_own_method(tmp_path: Path) -> None:
    training = tiny_training(tmp_path, data=Doubled(*blobs()))
    inputs, _ = training.data.fetch(torch.arange(3).numpy())
    assert torch.equal(inputs, 2 * blobs()[0][:3])


@pytest.mark.parametrize("where", ["missing/ledger.sqlite", "http://example.org/ledger"])
def test_a_ledger_that_cannot_be_opened_leaves_no_run_folder(tmp_path: Path, where: str) -> None:
    with pytest.raises(LedgerError):
        tiny_training(tmp_path, ledger=where if "://" in where else tmp_path / where).run()
    assert list(tmp_path.iterdir()) == []


def test_a_failing_on_open_leaves_no_run_folder(tmp_path: Path) -> None:
    def fail() -> None:
        raise InputError("the disk is full")

    with pytest.raises(InputError, match="full"):
        tiny_training(tmp_path, on_open=fail).run()
    assert list(tmp_path.iterdir()) == []


class Asserting(nn.Module):
    """Asserts what random rows are not, and lets rows meet."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error, self.layer = error, linear()

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 1:
            raise self.error
        scores: Tensor = self.layer(x - x.mean(0))
        return scores


@pytest.mark.parametrize("error", [AssertionError("none of mine"), ZeroDivisionError("by zero"), KeyError("a")])
def test_a_model_that_ends_the_trial_on_random_rows_is_refused_in_one_line(tmp_path: Path, error: Exception) -> None:
    """It is not taken for one that was made for other rows, and let pass without the trial."""
    with pytest.raises(InputError, match="the model fails on rows shaped like the data: ") as refusal:
        tiny_training(tmp_path, model=Asserting(error))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("now", ["frozen", "set to be trained"])
def test_a_layer_that_is_frozen_after_the_checks_is_refused_before_anything_is_charged(
    now: str, tmp_path: Path
) -> None:
    """A run whose layer was frozen was several times slower, and left it as it was."""
    model = linear()
    if now != "frozen":
        model.bias.requires_grad_(False)
    training = tiny_training(tmp_path, model=model)
    model.bias.requires_grad_(now != "frozen")
    with pytest.raises(InputError, match=rf"parameter 'bias' was {now} \(requires_grad\) after this Training was made"):
        training.run()
    assert not (tmp_path / "run").exists()
    model.bias.requires_grad_(now == "frozen")
    assert training.run().charged_steps == 7
