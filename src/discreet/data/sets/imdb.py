"""Reviews of films (Maas et al. 2011), from two .csv.gz files or the folders of the original archive."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.data.sets.set_files import folder_of, malformed, present, text_of
from discreet.data.sets.splits import Split
from discreet.data.text import Taken, bags, tokens

Form = Literal["bag", "tokens"]
_NEEDS = "imdb_train.csv.gz and imdb_test.csv.gz, or the folders train and test of aclImdb"
_SIDES = ("neg", "pos")

Review = tuple[str, int, str]
"""A review's public name, whether it is positive, and its text."""


def imdb(
    path: Path | None,
    form: Form = "bag",
    buckets: int = 4096,
    take: Taken = "content",
    grams: int = 2,
    length: int = 256,
    distinct: bool = False,
) -> Split:
    """25,000 reviews to train on and 25,000 to test: positive (1) or negative (0).

    - `form="tokens"`: inputs (n, length), whole numbers: the first `length` taken words of a review, each as its
    public hash from 1 to `buckets`; 0 where the review is shorter. With `distinct`, each word once.
    - `form="bag"`: inputs (n, buckets), rows of L2 norm 1: taken words and runs of 2 to `grams` words, as public
    signed hashes, each weighted by 1 + log(its count in the review).
    - `take`: the words to take: all "words", "content" without the stop words of scikit-learn, or "stems" of these,
    marked after a negation (`data.text.taken`).

    No vocabulary and no weight comes from the data. A review's identifier is the side and number of its original file.
    """
    checks.count("buckets", buckets)
    checks.count("length", length)
    checks.count("grams", grams)
    for name, value, known in (("form", form, get_args(Form)), ("take", take, get_args(Taken))):
        if value not in known:
            raise InputError(f"imdb: {name} must be one of {', '.join(known)}, got {value!r}")

    def part(name: Literal["train", "test"]) -> tuple[tuple[Tensor, Tensor], np.ndarray]:
        there = reviews(path, name)
        texts = [text for _, _, text in there]
        if form == "tokens":
            found: np.ndarray = tokens(texts, buckets, length, take, distinct=distinct)
        else:
            found = bags(texts, buckets, grams, take)
        targets = torch.tensor([positive for _, positive, _ in there])
        return (torch.from_numpy(found), targets), np.array([name for name, _, _ in there])

    (train, names), (test, _) = part("train"), part("test")
    return Split(train=train, test=test, ids=names)


def reviews(path: Path | None, part: Literal["train", "test"]) -> Sequence[Review]:
    """The reviews of one part of the data set in the folder of data sets `path`."""
    folder = folder_of(path, "imdb", _NEEDS, ("aclImdb",))
    file = present(folder, f"imdb_{part}.csv")
    found = _original(folder / part) if file is None else _table(file)
    if not found:
        raise InputError(f"{folder} lacks {_NEEDS}; give their folder with --data DIR")
    return found


def _table(file: Path) -> Sequence[Review]:
    reader = csv.DictReader(io.StringIO(text_of(file), newline=""))
    found = []
    try:
        for row in reader:
            if row.get("label") not in ("0", "1") or row.get("text") is None or not row.get("file_id"):
                malformed(file, reader.line_num, "expected the columns label (0 or 1), file_id and text")
            side = int(row["label"])
            found.append((f"{_SIDES[side]}/{row['file_id']}", side, row["text"]))
    except csv.Error as error:
        malformed(file, reader.line_num, str(error))
    return found


def _original(folder: Path) -> Sequence[Review]:
    return [
        (f"{side}/{file.stem.partition('_')[0]}", number, text_of(file))
        for number, side in enumerate(_SIDES)
        for file in sorted((folder / side).glob("*.txt"))
    ]
