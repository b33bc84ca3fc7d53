"""`discreet predict` on texts: the classes that a published language model gives them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import torch

from discreet.core.errors import InputError
from discreet.jobs.language.private_texts import read_rows, tokens_of_rows
from discreet.jobs.language.published_texts import PublishedTexts
from discreet.language import TransformersModel, TransformersRows
from discreet.prediction.answers import Answers, shares_of

_AT_ONCE = 64


def predictions(folder: Path, base: Path, data: Path, keep: Sequence[str] = ()) -> Answers:
    """The class of each text of a file (JSON lines, CSV or Parquet) with its probabilities, after the columns that
    `keep` names. `base`: the folder of the base model."""
    published = PublishedTexts.of(folder, base, "discreet predict")
    texts = published.texts
    if not texts.classes or texts.text is None or texts.length is None:
        raise InputError(f"{folder} holds no classifier of texts; texts are written by discreet generate")
    rows = read_rows(data, [texts.text, *keep])
    tokens = tokens_of_rows(rows, data, texts.text, published.tokenizer, texts.length)
    padding = getattr(published.inner.config, "pad_token_id", None) or 0
    there = TransformersRows([one | {"labels": 0} for one in tokens], texts.task, length=texts.length, padding=padding)
    model = TransformersModel(published.inner, texts.task, there.layout).eval()
    inputs, _ = there.tensors()
    with torch.no_grad():
        scores = torch.cat([model(inputs[at : at + _AT_ONCE]) for at in range(0, len(inputs), _AT_ONCE)])
    shares = scores.softmax(dim=1).double().numpy()
    best = shares.argmax(axis=1)
    target = texts.target or "class"
    if target in keep:
        raise InputError(f"--keep {target}: the predictions have a column of that name already; leave it out")
    found = {target: pa.array([texts.classes[place] for place in best], pa.string())}
    copied = {name: pa.array([str(row[name]) for row in rows]) for name in keep}
    return Answers(copied | found | shares_of(shares, best, texts.classes), 6)
