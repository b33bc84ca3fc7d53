"""Pretraining and private fine-tuning of benchmarks/language_pretraining.py and language_accuracy.py, on a few made-up
reviews: they run, go on where they stopped, and keep private, public and test rows apart."""

from __future__ import annotations

import csv
import gzip
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def scripts() -> Iterator[tuple[Any, Any, Any]]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import language_accuracy
        import language_halves
        import language_pretraining

        yield language_pretraining, language_accuracy, language_halves
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reviews in the files of the data set. The first of the test part is in the training part too."""
    folder, chosen = tmp_path_factory.mktemp("data"), random.Random(1)
    (folder / "imdb").mkdir()
    says = (["dull", "boring", "bad"], ["lovely", "moving", "good"])
    first = ""
    for part, count in (("train", 160), ("test", 40)):
        with gzip.open(folder / "imdb" / f"imdb_{part}.csv.gz", "wt", newline="") as file:
            table = csv.writer(file)
            table.writerow(["label", "rating", "file_id", "text"])
            for number in range(count):
                text = f"film {number} of {part}<br />was " + " ".join(chosen.choices(says[number % 2], k=70))
                first = first or text
                kept = first if (part, number) == ("test", 0) else text
                table.writerow([number % 2, 9 if number % 2 else 2, number, kept])
    return folder


def test_halves_do_not_meet(scripts: tuple[Any, Any, Any], data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretraining, _, halves = scripts
    public = set(pretraining.public_texts(data))
    monkeypatch.setattr(halves, "HELD", 20)
    parts = ("private", "tested", "others", "held out")
    private, tested, others, held = ({text for text, _ in halves.texts(data, part)} for part in parts)
    assert len(held) == 20
    assert not held & others
    assert held | others == public
    assert min(len(public), len(private)) > 50
    assert len(public) + len(private) == 160
    assert len(tested) == 39  # without the one that is in the training part
    assert not public & private
    assert not (public | private) & tested


def test_a_small_experiment(
    scripts: tuple[Any, Any, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretraining, accuracy, halves = scripts
    monkeypatch.setattr(pretraining, "SAVE_EVERY", 2)
    monkeypatch.setattr(halves, "HELD", 20)
    size = pretraining.Size(layers=1, features=16, length=16)
    for kind in ("masked", "causal"):
        pretraining.pretrain(kind, data, tmp_path, 2, size)
        pretraining.pretrain(kind, data, tmp_path, 4, size)  # goes on after two
        facts = json.loads((tmp_path / kind / "pretraining.json").read_text())
        assert (facts["steps"], facts["tokens seen"]) == (4, 4 * 32 * 16)
    ways = {key: replace(way, batch=20, steps=1) for key, way in accuracy.WAYS.items()}
    monkeypatch.setattr(accuracy, "WAYS", ways)
    monkeypatch.setattr(accuracy, "PLAIN", dict.fromkeys(accuracy.PLAIN, accuracy.Way(20, 1, 1e-2)))
    monkeypatch.setattr(accuracy, "EPSILONS", (8.0,))
    cases = [case for case in accuracy.cases(1) if case.how != "words"]
    assert {(case.task, case.how, case.epsilon) for case in cases} == {
        ("perplexity", "none", None),
        *((task, "full", None) for task in ("sentiment", "perplexity")),
        ("sentiment", "head", 8.0),
        *((task, how, 8.0) for task in ("sentiment", "perplexity") for how in ("full", "lora")),
    }
    found = [accuracy.run(case, data, tmp_path) for case in cases]
    assert all(0 <= one["found"] <= 1 for one in found if one["task"] == "sentiment")
    assert all(1 < one["found"] < 20_000 for one in found if one["task"] == "perplexity")
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps(one) + "\n" for one in found))
    accuracy.show(results)
    held = accuracy.reached(
        cases[0], data, tmp_path, tmp_path / "run", accuracy.Way(20, 1, 1e-2), ("others", "held out")
    )
    assert 0 <= held <= 1
    check_rehearsal(accuracy, halves, data, tmp_path)


def check_rehearsal(accuracy: Any, halves: Any, data: Path, models: Path) -> None:
    """Two rehearsals of one seed differ by their noise alone, whose scale is that of the whole batch's mean."""
    import language_rehearsal

    way = language_rehearsal.changed(accuracy.Way(80, 1, 0.1), ["batch=160", "rate=1.0", "optimizer=sgd"])
    given = halves.rows("perplexity", data, models, "others")
    stds, found = [], []
    for epsilon in (8.0, 1.0):
        case = accuracy.Case("perplexity", "full", epsilon, 0)
        stds.append(language_rehearsal.multiplier(way, epsilon) * way.clip / 160)
        found.append(language_rehearsal.rehearse(case, way, given, models))
    apart = torch.cat([(a - b).flatten() for a, b in zip(*(one.parameters() for one in found), strict=True)])
    assert float(apart.std()) == pytest.approx(stds[1] - stds[0], rel=0.05)


def test_word_vectors_are_of_reviews_in_common(scripts: tuple[Any, Any, Any]) -> None:
    """Words of the same reviews have alike vectors, others have not; none is of a word too rare to count."""
    pretraining, _, _ = scripts
    pieces = [[10, 11, 12], [20, 21, 22]] * 40 + [[10, 30]]
    vectors = pretraining.word_vectors(pieces, 2)
    near = torch.nn.functional.cosine_similarity
    assert near(vectors[10], vectors[11], 0) > 0.9
    assert abs(near(vectors[10], vectors[20], 0)) < 0.1
    assert vectors[30].norm() < 1e-3


def test_windows_hold_one_review(scripts: tuple[Any, Any, Any]) -> None:
    """A window is of one review, as long as it can be, and a short review is filled up."""
    pretraining, _, _ = scripts
    pieces = [[10 + review] * (3 + 9 * review) for review in range(4)]
    rows, chosen = pretraining.Reviews(pieces).windows(np.random.default_rng(0), 8)
    assert rows.shape == (pretraining.BATCH, 8)
    assert {1, 2, 3} <= set(chosen)
    for row, review in zip(rows.tolist(), chosen, strict=True):
        assert row[0] == pretraining.CLS
        filling = 7 - 3 - 1 if review == 0 else 0
        assert row.count(pretraining.PAD) == filling
        assert set(row[1 : 8 - filling]) <= {10 + review, pretraining.SEP}
