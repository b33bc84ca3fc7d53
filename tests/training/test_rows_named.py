"""A row that a model or a batch cannot take is named before anything is charged, with its type and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from language_families import field_rows, inner_model, transformers
from problems import CLASSES, FEATURES, blobs, tiny_training
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.data.private.several_inputs import for_model
from discreet.integrations.huggingface import PrivateTrainer
from discreet.plan import Plan

INPUTS, LABELS = blobs()
PLAN = Plan.poisson(population=40, batch=20, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)


def refused(folder: Path, task: str, model: str, rows: Any, **given: Any) -> str:
    """What `PrivateTrainer` says of rows."""
    arguments = transformers.TrainingArguments(output_dir=str(folder / "hf"), report_to=[], use_cpu=True)
    trainer = PrivateTrainer(
        inner_model(model, task),
        arguments,
        train_dataset=rows,
        plan=PLAN,
        options={"run": folder / "run", "engine": "bookkeeping"},
        **given,
    )
    with pytest.raises(InputError) as error:
        trainer.train()
    assert "\n" not in str(error.value)
    assert not (folder / "run").exists()
    return str(error.value)


@pytest.mark.filterwarnings("ignore")
def test_a_token_beyond_the_vocabulary(tmp_path: Path) -> None:
    rows = field_rows("classification", 40)
    words = inner_model("BERT", "classification").config.vocab_size
    rows[7] = rows[7] | {"input_ids": torch.cat([torch.tensor([words + 3]), torch.as_tensor(rows[7]["input_ids"])[1:]])}
    said = refused(tmp_path, "classification", "BERT", rows)
    assert said == (
        "row 7 of the data: a number has no entry in the model's table "
        f"'inner.bert.embeddings.word_embeddings', which has {words} (0 to {words - 1}); make the row by the "
        "vocabulary of this model (its own tokenizer), or give the table more entries"
    )


class Places(nn.Module):
    """Words and their places, of which there are four."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.where, self.last = nn.Embedding(9, 4), nn.Embedding(4, 4), nn.Linear(4, CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.last((self.words(rows) + self.where(torch.arange(rows.shape[1]))).mean(1))
        return found


def test_rows_longer_than_a_table_of_places(tmp_path: Path) -> None:
    rows = torch.arange(5 * len(LABELS)).view(-1, 5) % 9
    with pytest.raises(
        InputError, match=r"^rows 0 to .*a number has no entry in .*'where', which has 4 .* shorten them"
    ):
        tiny_training(tmp_path, model=Places(), data=(rows, LABELS))
    rows = rows[:, :4].clone()
    rows[11, 2] = -1
    with pytest.raises(InputError, match=r"^row 11 of the data: a number has no entry in .*'words'"):
        tiny_training(tmp_path, model=Places(), data=(rows, LABELS))


class Named(nn.Module):
    """Takes a dictionary, and hands a switch on by name."""

    def forward(self, rows: Any, return_dict: bool = True) -> Any:
        more = {"made": 1}
        return {"ids": rows["ids"], "extra": 1, **more, "return_dict": return_dict}


def test_switches_are_not_advised_as_inputs() -> None:
    said = for_model(Named(), IndexError("too many indices for tensor of dimension 2"))
    assert "torch.stack([ids], 1)" in said
    assert "return_dict" not in said
    assert "extra" not in said


class Rows(torch.utils.data.Dataset[Any]):
    """Rows of which one has another target or input."""

    def __init__(self, odd: Any, place: int) -> None:
        self.odd, self.place = odd, place

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> Any:
        pair = [INPUTS[index], int(LABELS[index])]
        pair[self.place] = self.odd
        return tuple(pair)


def test_texts_and_images_are_named_with_their_type(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image").fromarray(np.zeros((2, 2), np.uint8))
    for odd, place, wanted in (
        (
            "pos",
            1,
            r"^row 0 of the data: its target is a str, which is no number; give classes as whole numbers from 0",
        ),
        ("a text", 0, r"^row 0 of the data: its input is a str, .*tokenizer\)$"),
        (image, 0, r"^row 0 of the data: its input is a Image, .*torchvision\.transforms\.ToTensor\(\)"),
        (None, 1, r"^row 0 of the data: its target is a NoneType, .*give a tensor, an array or a number$"),
    ):
        model = nn.Linear(FEATURES, CLASSES)
        with pytest.raises(InputError, match=wanted) as error:
            tiny_training(tmp_path, model=model, data=Rows(odd, place))
        assert "\n" not in str(error.value)
        assert "pos" not in str(error.value)


@pytest.mark.filterwarnings("ignore")
def test_labels_that_are_texts_in_rows_of_transformers(tmp_path: Path) -> None:
    rows = field_rows("classification", 40)
    rows[3] = rows[3] | {"labels": "good"}
    said = refused(tmp_path, "classification", "BERT", rows)
    assert said == (
        "the label of row 3 is a str, which is no tensor of numbers; number classes from 0 (config.label2id), the same "
        "in every row"
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["classification", "causal-lm"])
def test_rows_of_several_lengths_name_the_argument_of_the_trainer(task: str, tmp_path: Path) -> None:
    rows = field_rows(task, 40)
    length = len(rows[0]["input_ids"])
    rows[5] = {name: one if name == "labels" and task != "causal-lm" else one[:-2] for name, one in rows[5].items()}
    name = "Llama" if task == "causal-lm" else "BERT"
    for collator in (None, lambda rows: {name: torch.as_tensor(one)[None] for name, one in rows[0].items()}):
        said = refused(tmp_path, task, name, rows, data_collator=collator)
        assert said.startswith(f"row 5 has {length - 2} tokens and row 0 has {length}: they need one length")
        assert "give PrivateTrainer(length=N)" in said


class OfAnEnergy(nn.Module):
    """A model that returns the gradient of a number, by the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(FEATURES, 3), nn.Linear(FEATURES, CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        given = rows.detach().requires_grad_()
        slopes = torch.autograd.grad(torch.tanh(self.layer(given)).sum(), given, create_graph=True)[0]
        scores: Tensor = self.last(slopes)
        return scores


class OfAnEnergyAnyhow(OfAnEnergy):
    """One that says so."""

    def forward(self, rows: Tensor) -> Tensor:
        with torch.enable_grad():
            return super().forward(rows)


def test_a_model_that_takes_gradients_is_told_where(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"take those in forward inside torch.enable_grad\(\)"):
        tiny_training(tmp_path, model=OfAnEnergy())
    tiny_training(tmp_path, model=OfAnEnergyAnyhow(), engine="reference")
