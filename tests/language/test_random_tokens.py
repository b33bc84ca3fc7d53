"""Random rows that models of transformers are tried on before a run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from language_families import FAMILIES, LENGTH, WORDS, inner_model, on_rows, rows_for
from torch import Tensor, nn

import discreet
from discreet.audit.builds.made_up import Maker
from discreet.audit.builds.subject import Subject
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
    made = model.rows_to_try(example, 50, torch.Generator().manual_seed(0))
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

    def rows_to_try(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor:
        assert not example.any()
        shape = count, example.shape[-1]
        fields = [torch.randint(0, below, shape, generator=generator) for below in (self.made, 2)]
        return torch.stack(fields, 1)


def typed_rows(rows: int = 40) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(5)
    fields = [torch.randint(0, below, (rows, 6), generator=drawn) for below in (50, 2)]
    return torch.stack(fields, 1), torch.randint(0, 2, (rows,), generator=drawn)


def trained(model: nn.Module, data: object = None) -> discreet.Training:
    plan = discreet.Plan.poisson(population=40, batch=20, steps=1, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return discreet.Training(plan, model, nn.CrossEntropyLoss(), optimizer, data or typed_rows())


def test_a_model_of_ones_own_may_make_them() -> None:
    data = as_private(typed_rows())
    assert int(random_rows(Typed(), data, 2).inputs.max()) == 1
    assert int(random_rows(Knowing(), data, 2).inputs.max()) > 40
    trained(Knowing())


def test_a_model_that_is_tried_on_few_of_its_words_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    trained(Knowing())
    assert "rows_to_try" not in caplog.text
    trained(Typed())
    said = [one.getMessage() for one in caplog.records if "rows_to_try" in one.getMessage()]
    assert said == [
        "the checks try the model on whole numbers below 2 only, its smallest table of embeddings (the largest has "
        "50); give it a method rows_to_try(example, count, generator) that makes random rows"
    ]
    model = Typed()
    model.types = nn.Embedding(7, 8)  # an eighth of 50 is less than 7
    caplog.clear()
    trained(model)
    assert "rows_to_try" not in caplog.text


@pytest.mark.parametrize("padding", [-1, 99, None])
def test_padding_beyond_the_vocabulary_is_not_looked_up(padding: int | None) -> None:
    inner = inner_model("Llama")
    inner.config.pad_token_id = padding
    model = on_rows(inner, "causal-lm").eval()
    rows = random_rows(model, as_private(rows_for("causal-lm", 4)), WORDS)
    assert model(rows.inputs).isfinite().all()


def test_rows_of_one_word_are_among_them() -> None:
    _, rows = tried("BERT")
    words = rows.inputs[:, 0]
    assert [i for i, row in enumerate(words) if len(row.unique()) == 1] == [2, 6, 10]


@pytest.mark.parametrize("wrapped", [True, False])
def test_tables_below_adapters_tell_their_words(wrapped: bool) -> None:
    """A table in an adapter of peft is no `nn.Embedding`; one that does not tell leaves rows as elsewhere."""
    model = on_rows(inner_model("BERT", "classification"), "classification")
    table = model.inner.get_input_embeddings()

    class Adapted(nn.Module):
        weight = table.weight if wrapped else None

        def forward(self, words: Tensor) -> Tensor:
            found: Tensor = table(words)
            return found

    model.inner.set_input_embeddings(Adapted())
    rows = random_rows(model, as_private(rows_for("classification", 4)), 2)
    assert rows.of_model is wrapped
    assert model(rows.inputs).isfinite().all()


def test_natural_rows_of_such_a_model_stay_in_its_tables() -> None:
    """Fields may lie along the last axis: what is a word there may be beyond the table of types."""

    class Last(Knowing):
        def forward(self, rows: Tensor) -> Tensor:
            return super().forward(rows.transpose(1, 2))

        def rows_to_try(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor:
            return super().rows_to_try(example.transpose(1, 2), count, generator).transpose(1, 2)

    inputs, targets = typed_rows()
    data = inputs.transpose(1, 2).contiguous(), targets
    rows = random_rows(Last(), as_private(data), 2)
    Last()(natural_tokens(rows).inputs)
    assert "on natural rows" in trained(Last(), data).preflight.line


def test_natural_rows_that_a_model_does_not_take_are_not_said_to_be_tried() -> None:
    class Counted(Knowing):
        """Words from 1 on."""

        def forward(self, rows: Tensor) -> Tensor:
            return super().forward(rows - torch.tensor([[1], [0]]))

        def rows_to_try(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor:
            return super().rows_to_try(example, count, generator).clamp(max=48) + torch.tensor([[1], [0]])

    inputs, targets = typed_rows()
    inputs[:, 0].clamp_(min=1)
    assert "natural rows could not be tried" in trained(Counted(), (inputs, targets)).preflight.line


def test_rows_of_augmented_data_are_made_up_as_before() -> None:
    """What a model makes is what a transform returns, not what it is given."""
    inputs, targets = typed_rows()
    wide = torch.cat([inputs, inputs], 2)
    data = discreet.Augmented((wide, targets), lambda rows: rows[..., :6])
    assert Subject.of(trained(Knowing(), data)).maker.rows(5, 0)[0].shape == (5, 2, 12)


def failing(example: Tensor, count: int, generator: torch.Generator) -> Tensor:
    raise KeyError("here")


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (lambda rows: rows, r"rows_to_try\(example, count, generator\) of the model fails: TypeError"),
        (failing, "of the model fails: KeyError: 'here'"),
        (lambda example, count, generator: [[1]], r"must return rows of shape \(12, 2, 6\), got list"),
    ],
)
def test_a_method_that_fails_is_an_error_that_names_it(method: Any, said: str) -> None:
    model = Typed()
    model.rows_to_try = method
    with pytest.raises(InputError, match=said):
        trained(model)


def test_rows_that_differ_from_call_to_call_are_an_error() -> None:
    """Processes of one run would try different rows."""
    model, state = Typed(), iter(range(10**6))
    model.rows_to_try = lambda example, count, generator: torch.full((count, *example.shape[1:]), next(state) % 2)
    with pytest.raises(InputError, match="makes other rows when it is called again; draw from `generator`"):
        trained(model)


def test_an_attribute_of_that_name_is_nothing_to_call() -> None:
    model = Typed()
    model.rows_to_try = 5  # type: ignore[assignment]
    trained(model)


def test_rows_of_another_shape_are_an_error() -> None:
    class Wrong(Typed):
        def rows_to_try(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor:
            return torch.zeros(count, 6, dtype=torch.int64)

    with pytest.raises(
        InputError,
        match=r"rows_to_try of the model must return rows of shape \(12, 2, 6\), got \(12, 6\)",
    ):
        trained(Wrong())
