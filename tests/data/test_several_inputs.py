"""Rows of several inputs, and data sets that are declared public."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

from discreet import Augmented, Columns, InputError, Plan, PublicData, Training
from discreet.data import as_public

TOKENS = torch.randint(1, 9, (40, 5), generator=torch.Generator().manual_seed(0))
MASK = torch.arange(5) >= torch.arange(40)[:, None] % 4 + 2
KINDS = torch.arange(40) % 2
PLAN = Plan.poisson(population=40, batch=10, steps=2, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3)


class Rows(Dataset[Any]):
    """Rows in the form that `make` gives them."""

    def __init__(self, make: Callable[[int], Any], count: int = 40) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


class Masked(nn.Module):
    """An encoder of tokens and their mask, which lie side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 8), nn.Linear(8, 2)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, dropout=0.1, batch_first=True), 1)

    def forward(self, rows: Tensor) -> Tensor:
        tokens, mask = rows[:, 0], rows[:, 1].bool()
        mask = mask & ~mask.all(1, keepdim=True)
        hidden = self.body(self.words(tokens), src_key_padding_mask=mask)
        return self.head(hidden.masked_fill(mask.unsqueeze(2), 0.0).sum(1))


def training(folder: Path, data: object, model: nn.Module | None = None, **more: Any) -> Training:
    model = model or Masked()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Training(PLAN, model, nn.CrossEntropyLoss(), optimizer, data, run=folder, **more)


NAMED = Rows(lambda i: {"tokens": TOKENS[i], "mask": MASK[i], "kind": int(KINDS[i])})
PAIRS, TAKEN = "forward(rows[:, 0], rows[:, 1])", "forward({'tokens': rows[:, 0], 'mask': rows[:, 1]})"
COLUMNS = "discreet.Columns(data, target=NAME, inputs=NAMES)"
MADE: dict[str, tuple[Any, str]] = {
    "a dictionary and a target": (Rows(lambda i: ({"tokens": TOKENS[i], "mask": MASK[i]}, KINDS[i])), TAKEN),
    "a pair and a target": (Rows(lambda i: ((TOKENS[i], MASK[i]), KINDS[i])), PAIRS),
    "three": (Rows(lambda i: (TOKENS[i], MASK[i], KINDS[i])), PAIRS),
    "a dictionary": (NAMED, COLUMNS),
    "a list of rows": ([({"tokens": TOKENS[i], "mask": MASK[i]}, KINDS[i]) for i in range(40)], TAKEN),
    "tensors by name and targets": (({"tokens": TOKENS, "mask": MASK}, KINDS), TAKEN),
    "tensors and targets": (([TOKENS, MASK], KINDS), PAIRS),
    "three tensors": ((TOKENS, MASK, KINDS), PAIRS),
    "a data set of three": (TensorDataset(TOKENS, MASK, KINDS), PAIRS),
    "tensors by name": ({"tokens": TOKENS, "mask": MASK, "kind": KINDS}, COLUMNS),
}


@pytest.mark.parametrize("name", MADE)
def test_an_error_says_what_to_do_with_rows_of_several_inputs(name: str, tmp_path: Path) -> None:
    data, said = MADE[name]
    with pytest.raises(InputError) as refused:
        training(tmp_path / "run", data)
    assert str(refused.value).endswith(said)
    assert ("torch.stack([tokens, mask], 1)" in str(refused.value)) is (said is TAKEN)


class OfTwo(nn.Module):
    """It takes tokens and their mask as two arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 8), nn.Linear(8, 2)

    def forward(self, tokens: Tensor, mask: Any) -> Tensor:
        found: Tensor = self.head((self.words(tokens) * mask.unsqueeze(2)).sum(1))
        return found


class OfOptional(OfTwo):
    def forward(self, tokens: Tensor, mask: Any = None) -> Tensor:
        return super().forward(tokens, mask)


class OfNames(OfTwo):
    def forward(self, batch: Any) -> Tensor:  # type: ignore[override]
        return super().forward(batch["tokens"], batch["mask"])


class Apart(OfTwo):
    """As the error for `OfTwo` says."""

    def forward(self, rows: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(rows[:, 0], rows[:, 1])


class ApartByName(OfNames):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward({"tokens": rows[:, 0], "mask": rows[:, 1]})


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("kind", [OfTwo, OfOptional, OfNames])
def test_a_model_that_takes_several_inputs_is_refused_with_what_to_write(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        training(tmp_path / "run", (torch.stack([TOKENS, MASK.long()], 1), KINDS), kind())
    wanted = TAKEN if kind is OfNames else PAIRS
    assert f"a subclass of {kind.__name__} takes them apart" in str(refused.value)
    assert str(refused.value).endswith(wanted)
    assert not (tmp_path / "run").exists()


def test_an_error_of_another_kind_has_no_such_advice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot take examples") as refused:
        training(tmp_path / "run", (torch.rand(40, 3), KINDS), nn.Linear(4, 2))
    assert "subclass" not in str(refused.value)


@pytest.mark.parametrize("kind", [Apart, ApartByName])
def test_what_is_advised_trains(kind: Any, tmp_path: Path) -> None:
    """On tensors and arrays by name; the rows of others are their own."""
    data = Columns({"tokens": TOKENS, "mask": MASK.numpy(), "kind": KINDS}, target="kind", inputs=["tokens", "mask"])
    run = training(tmp_path / "run", data, kind())
    assert run.run(progress=False).charged_steps == 2
    assert set(run.model.state_dict()) == set(OfTwo().state_dict())


def test_tensors_by_name_pair_up_and_are_known_as_private(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the field 'kind' has fewer rows than 'tokens'; give each a value for"):
        Columns({"tokens": TOKENS, "kind": KINDS[:39]}, "kind", "tokens")
    with pytest.raises(InputError, match="data has the parts train, test"):
        Columns({"train": NAMED, "test": NAMED}, "kind", "tokens")
    data = Columns({"tokens": TOKENS, "mask": MASK, "kind": KINDS}, "kind", ["tokens", "mask"])
    public = Columns(
        {"tokens": TOKENS[:9], "mask": MASK[:9].clone(), "kind": KINDS[:9].clone()}, "kind", ["tokens", "mask"]
    )
    with pytest.raises(InputError, match="shares rows with it"):
        training(tmp_path / "run", data, Apart(), public=PublicData(test=public))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_fields_of_whole_numbers_stay_whole_side_by_side(tmp_path: Path) -> None:
    data = Columns(NAMED, target="kind", inputs=["tokens", "mask"])
    inputs, targets = data.gather(np.arange(40))
    assert inputs.dtype == torch.int64
    assert torch.equal(inputs, torch.stack([TOKENS, MASK.long()], dim=1))
    assert torch.equal(targets, KINDS)
    public = Subset(Rows(lambda i: (torch.stack([TOKENS[i], MASK[i].long()]), KINDS[i])), range(12))
    run = training(tmp_path / "run", data, public=PublicData(validation=public))
    run.run(progress=False)
    assert 0 <= run.evaluations[-1].metrics["validation_accuracy"] <= 1


def test_fields_of_numbers_become_real_ones_and_shapes_must_agree() -> None:
    rows = Rows(lambda i: {"a": np.float32(i), "b": i, "wide": TOKENS[i], "kind": 0})
    assert Columns(rows, "kind", ["a", "b"]).gather(np.arange(2))[0].dtype == torch.float32
    with pytest.raises(InputError, match=r"have the shapes .*; pad them to one shape"):
        Columns(rows, "kind", ["a", "wide"]).gather(np.arange(2))


def test_a_data_set_is_declared_public(tmp_path: Path) -> None:
    inputs = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    rows = Rows(lambda i: (inputs[i], KINDS[i]))
    found = as_public(Subset(rows, range(10, 40)))
    assert found is not None
    assert torch.equal(found[0], inputs[10:])
    assert torch.equal(found[1], KINDS[10:])
    private = Subset(rows, range(10))
    run = training(tmp_path / "run", private, nn.Linear(3, 2), public=PublicData(test=Subset(rows, range(10, 40))))
    run.run(progress=False)
    assert "accuracy" in run.evaluations[-1].metrics


def test_the_private_data_set_or_rows_of_it_are_not_public(tmp_path: Path) -> None:
    inputs = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    rows = Rows(lambda i: (inputs[i], KINDS[i]))
    for public in (rows, Subset(rows, [3])):
        with pytest.raises(InputError, match="public test is the training data itself, or shares rows"):
            training(tmp_path / "run", rows, nn.Linear(3, 2), public=PublicData(test=public))
    empty = PublicData(validation=Rows(rows.make, 0))
    with pytest.raises(InputError, match="public validation: the data set is empty"):
        training(tmp_path / "run", rows, nn.Linear(3, 2), public=empty)
    with pytest.raises(InputError, match="public data is augmented"):
        as_public(Augmented((inputs, KINDS), lambda batch: batch))
