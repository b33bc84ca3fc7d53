"""The halves of IMDb's training reviews, private and public, and its test reviews, as rows of models and of words."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from language_pretraining import clean, is_public
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from discreet.data.sets.imdb import reviews
from discreet.language import TransformersModel, TransformersRows
from discreet.recipes import load_recipe

TESTED = {"sentiment": 4000, "perplexity": 1000}
HELD = 2000
"""Reviews of the public half on which settings are compared."""

Part = Literal["private", "tested", "others", "held out"]
HALVES: tuple[Part, Part] = ("private", "tested")
"""What runs of the page are trained and measured on."""


@cache
def texts(data: Path, part: Part) -> list[tuple[str, int]]:
    """(text, label) of the private half, of the test rows, or of the public half: its held-out rows and the others. In
    an order that a public seed decides."""
    train = reviews(data, "train")
    known = {text for _, _, text in train}
    match part:
        case "private":
            found = [(clean(text), label) for _, label, text in train if not is_public(text)]
        case "tested":
            found = [(clean(text), label) for _, label, text in reviews(data, "test") if text not in known]
        case _:
            found = sorted({(clean(text), label) for _, label, text in train if is_public(text)})
    order = np.random.default_rng(0).permutation(len(found))
    return [found[place] for place in order][
        {"held out": slice(HELD), "others": slice(HELD, None)}.get(part, slice(None))
    ]


@cache
def rows(task: str, data: Path, models: Path, part: Part) -> tuple[Tensor, Tensor]:
    """Rows of tokens: the last tokens of a review for its sentiment, the first ones to be predicted."""
    tokenizer = AutoTokenizer.from_pretrained(models / ("masked" if task == "sentiment" else "causal"))
    tokenizer.truncation_side = "left" if task == "sentiment" else "right"
    there = texts(data, part)[: TESTED[task] if part == "tested" else None]
    found = tokenizer([text for text, _ in there], truncation=True)
    fields: list[dict[str, Any]] = [
        {"input_ids": found["input_ids"][place], "attention_mask": found["attention_mask"][place]}
        for place in range(len(there))
    ]
    if task == "sentiment":
        for field, (_, label) in zip(fields, there, strict=True):
            field["labels"] = label
    name = "classification" if task == "sentiment" else "causal-lm"
    return TransformersRows(fields, name, length=tokenizer.model_max_length).tensors()


@cache
def features(data: Path, models: Path, part: Part) -> tuple[Tensor, Tensor]:
    """What the frozen masked model gives its classifier, a public function of each row, and the labels."""
    inputs, labels = rows("sentiment", data, models, part)
    inner = AutoModelForSequenceClassification.from_pretrained(models / "masked")
    inner.classifier = nn.Identity()
    model = TransformersModel(inner, "classification").eval()
    with torch.no_grad():
        return torch.cat([model(inputs[start : start + 100]) for start in range(0, len(labels), 100)]), labels


@cache
def words(data: Path) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The private half and the public test rows as the recipe's words."""
    recipe = load_recipe("imdb")
    split = recipe.load_data(data)
    train, known = reviews(data, "train"), {text for text, _ in texts(data, "tested")[: TESTED["sentiment"]]}
    private = torch.tensor([not is_public(text) for _, _, text in train])
    tested = torch.tensor([clean(text) in known for _, _, text in reviews(data, "test")])
    (inputs, labels), (test, truth) = split.train, split.test or split.train
    return (inputs[private], labels[private]), (test[tested], truth[tested])
