"""Random rows that models of transformers are tried on before a run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from language_families import FAMILIES, LENGTH, WORDS, inner_model, on_rows, rows_for
from torch import Tensor, nn

import discreet
from discreet.audit.builds.made_up import Maker
from discreet.core.errors import InputError
from discreet.data import as_private
from discreet.language import Layout, TransformersModel
from discreet.training.preflight.random_rows import natural_tokens, random_rows

pytestmark = pytest.mark.filterwarnings("ignore")


def tried(name: str) -> tuple[TransformersModel, Any]:
    family = FAMILIES[name]
    model = on_rows(inner_model(name), family.task).eval()
    return model, random_rows(model, as_private(rows_for(family.task, 4)), WORDS)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "ViT"])
def test_families_take_them_and_natural_ones(name: str) -> None:
    """Words of the whole vocabulary, though tables of positions and types are smaller; no row is all padding."""
    model, rows = tried(name)
    named = model.layout.apart(rows.inputs)
    for field, found in named.items():
        if field.endswith("input_ids"):
            assert int(found.max()) >= WORDS - 3
    mask = named["attention_mask"]
    assert mask.unique().tolist() == [0, 1]
    assert mask[:, 0].all()
    assert mask[::2].all()
    assert (mask.diff(dim=1) <= 0).all()  # rows are filled up at their end
    for tokens in (rows, natural_tokens(rows)):
        assert model(tokens.inputs).isfinite().all()


def test_types_positions_and_other_fields_stay_in_their_tables() -> None:
    inner = inner_model("BERT", "classification")
    layout = Layout(("input_ids", "attention_mask", "token_type_ids", "position_ids"))
    model = TransformersModel(inner, "classification", layout).eval()
    example = torch.zeros(1, 4, LENGTH, dtype=torch.int32)
    made = model.random_rows(example, 50, torch.Generator().manual_seed(0))
    assert made is not None
    assert made[:, 2].unique().tolist() == [0, 1]
    assert int(made[:, 3].max()) == LENGTH - 1
    assert model(made).isfinite().all()


def test_rows_of_roberta_are_not_all_alike() -> None:
    """Its table of token types has one entry: rows of words below it would all be the same."""
    inner = inner_model("RoBERTa", "classification", type_vocab_size=1)
    rows = random_rows(on_rows(inner, "classification"), as_private(rows_for("classification", 4)), 2)
    assert len(rows.inputs[:, 0].unique(dim=0)) == len(rows.inputs)


def test_audits_make_up_the_same_kind_of_rows() -> None:
    model, _ = tried("BERT")
    inputs, targets = rows_for(FAMILIES["BERT"].task, 1)[0]
    made, _ = Maker.like((inputs[None], targets[None]), model, 1, users=False).rows(30, 0)
    assert int(made[:, 0].max()) >= WORDS - 3
    assert made[:, 1].unique().tolist() == [0, 1]


class Typed(nn.Module):
    """Words and their types side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.types, self.head = nn.Embedding(50, 8), nn.Embedding(2, 8), nn.Linear(8, 2)

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.head((self.words(rows[:, 0]) + self.types(rows[:, 1])).sum(1))
        return scores


class Knowing(Typed):
    made = 50

    def random_rows(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor:
        assert not example.any()
        shape = count, example.shape[-1]
        fields = [torch.randint(0, below, shape, generator=generator) for below in (self.made, 2)]
        return torch.stack(fields, 1)


def typed_rows(rows: int = 40) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(5)
    fields = [torch.randint(0, below, (rows, 6), generator=drawn) for below in (50, 2)]
    return torch.stack(fields, 1), torch.randint(0, 2, (rows,), generator=drawn)


def trained(model: nn.Module) -> discreet.Training:
    plan = discreet.Plan.poisson(population=40, batch=20, steps=1, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return discreet.Training(plan, model, nn.CrossEntropyLoss(), optimizer, typed_rows())


def test_a_model_of_ones_own_may_make_them() -> None:
    data = as_private(typed_rows())
    assert int(random_rows(Typed(), data, 2).inputs.max()) == 1
    assert int(random_rows(Knowing(), data, 2).inputs.max()) > 40
    trained(Knowing())


def test_rows_of_another_shape_are_an_error() -> None:
    class Wrong(Typed):
        def random_rows(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor:
            return torch.zeros(count, 6, dtype=torch.int64)

    with pytest.raises(
        InputError,
        match=r"random_rows of the model must return rows of shape \(12, 2, 6\), got \(12, 6\)",
    ):
        trained(Wrong())
