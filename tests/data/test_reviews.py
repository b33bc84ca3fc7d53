"""Reviews of films as rows: words, stems with negations, bags, and both forms of their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import official_files
import torch
from official_files import made

from discreet.data import DATASETS
from discreet.data.hashing import hashed
from discreet.data.text import stem, taken, tokens, words


def test_reviews_as_words_and_as_bags(tmp_path: Path) -> None:
    path = made("imdb", tmp_path)
    split = DATASETS["imdb"](path, form="tokens", take="words", buckets=50, length=5)
    assert split.ids is not None
    assert split.ids.tolist() == ["pos/0", "neg/7", "neg/8"]
    assert split.train[1].tolist() == [1, 0, 0]

    def code(word: str) -> int:
        return 1 + hashed(word) % 50

    assert words("A <b>fine</b> film, isn't it? 10/10") == ["a", "fine", "film", "isn't", "it", "10", "10"]
    assert split.train[0].tolist() == [
        [code(word) for word in ("a", "fine", "film", "a", "fine")],
        [code(word) for word in ("dull", "not", "a", "film", "it's")],
        [0] * 5,
    ]
    bag = DATASETS["imdb"](path, buckets=64, grams=2)
    expected = torch.zeros(64)
    twice = ("fine", "film", "a fine", "fine film")
    for run, count in [*((run, 2) for run in twice), ("film a", 1)]:  # "a" stops
        number = hashed(run)
        expected[number % 64] += (-1 if number >> 63 else 1) * (1 + np.log(count))
    torch.testing.assert_close(bag.train[0][0], expected / expected.norm())
    assert not bag.train[0][2].any()


def test_stems_and_negations() -> None:
    assert [stem(word) for word in ("boring", "bored", "fly", "happiness", "wonderfully")] == [
        "bor",
        "bor",
        "fly",
        "happ",
        "wonderf",
    ]
    text = "I don't like the boring films; films like it are not at all boring to me"
    assert taken(text, "content") == ["don't", "like", "boring", "films", "films", "like", "boring"]
    assert taken(text, "stems") == ["not", "not lik", "not bor", "film", "film", "lik", "not", "not bor"]
    numbers = [1 + hashed(word) % 1000 for word in ("not", "not lik", "not bor", "film")]
    assert tokens([text], 1000, 5, "stems", distinct=True)[0].tolist() == [*numbers, 1 + hashed("lik") % 1000]


def test_the_original_folders_of_reviews_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = DATASETS["imdb"](made("imdb", tmp_path / "one"), buckets=64)
    two = DATASETS["imdb"](made("imdb", tmp_path / "two", official_files.imdb_original), buckets=64)
    assert one.ids is not None
    assert two.ids is not None
    rows = dict(zip(two.ids.tolist(), two.train[0], strict=True))
    assert all(torch.equal(rows[name], row) for name, row in zip(one.ids.tolist(), one.train[0], strict=True))
    assert two.train[1].tolist() == [0, 0, 1]
