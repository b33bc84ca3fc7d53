"""Pretraining and private fine-tuning of benchmarks/language_pretraining.py and language_accuracy.py, on a few made-up
reviews: they run, go on where they stopped, and keep private, public and test rows apart."""

from __future__ import annotations

import csv
import gzip
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def scripts() -> Iterator[tuple[Any, Any]]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import language_accuracy
        import language_pretraining

        yield language_pretraining, language_accuracy
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


def test_halves_do_not_meet(scripts: tuple[Any, Any], data: Path) -> None:
    pretraining, accuracy = scripts
    public = set(pretraining.public_texts(data))
    private, tested = ({text for text, _ in accuracy.texts(data, own)} for own in (True, False))
    assert min(len(public), len(private)) > 50
    assert len(public) + len(private) == 160
    assert len(tested) == 39  # without the one that is in the training part
    assert not public & private
    assert not (public | private) & tested


def test_a_small_experiment(
    scripts: tuple[Any, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretraining, accuracy = scripts
    monkeypatch.setattr(pretraining, "SAVE_EVERY", 2)
    size = pretraining.Size(layers=1, features=16, length=16)
    for kind in ("masked", "causal"):
        pretraining.pretrain(kind, data, tmp_path, 2, size)
        pretraining.pretrain(kind, data, tmp_path, 4, size)  # goes on after two
        facts = json.loads((tmp_path / kind / "pretraining.json").read_text())
        assert (facts["steps"], facts["tokens seen"]) == (4, 4 * 32 * 16)
    ways = {key: accuracy.Way(20, 1, 1e-2) for key in accuracy.WAYS}
    monkeypatch.setattr(accuracy, "WAYS", ways)
    monkeypatch.setattr(accuracy, "PLAIN", dict.fromkeys(accuracy.PLAIN, accuracy.Way(20, 1, 1e-2)))
    monkeypatch.setattr(accuracy, "EPSILONS", (8.0,))
    cases = [case for case in accuracy.cases(1) if case.how != "words"]
    assert {(case.task, case.how, case.epsilon) for case in cases} == {
        ("perplexity", "none", None),
        *((task, "full", None) for task in ("sentiment", "perplexity")),
        *((task, how, 8.0) for task in ("sentiment", "perplexity") for how in ("full", "lora")),
    }
    found = [accuracy.run(case, data, tmp_path) for case in cases]
    assert all(0 <= one["found"] <= 1 for one in found if one["task"] == "sentiment")
    assert all(1 < one["found"] < 20_000 for one in found if one["task"] == "perplexity")
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps(one) + "\n" for one in found))
    accuracy.show(results)
