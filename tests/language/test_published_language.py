"""The recipes for E2E, SST-2 and MNLI of benchmarks/published_language.py, on tiny made-up files and random models."""

from __future__ import annotations

import csv
import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tiny_model_folder import PUBLIC, model_folder

import discreet
from discreet.core.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def recipes() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "published_language.py"
    spec = importlib.util.spec_from_file_location("published_language", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["published_language"] = made
    spec.loader.exec_module(made)
    return made


def made_up(folder: Path, name: str, recipe: Any) -> Path:
    """Files of the data set's own form. Meanings of E2E have two references each."""
    folder.mkdir()
    chosen = random.Random(1)
    for file, count in zip(recipe.files, (80, 12), strict=True):
        rows = []
        for number in range(count):
            text = " ".join(chosen.choices(PUBLIC[number % 2].split(), k=5))
            if name == "e2e":
                about = "dogs" if file == "trainset.csv" else "cats"
                rows.append([f"name[{PUBLIC[number // 2 % 2]} {about}]", text])
            else:
                kinds = [*recipe.classes, "-"] if name == "mnli" else recipe.classes
                rows.append([*[text] * (len(recipe.columns) - 1), kinds[number % len(kinds)]])
        with (folder / file).open("w", newline="") as out:
            if file.endswith(".csv"):
                csv.writer(out).writerows([recipe.columns, *rows])
            else:  # with a column that nobody asks for, and a quote that is a character
                rows[0][0] = '"' + rows[0][0]
                out.writelines(
                    "\t".join(row) + "\n" for row in [["index", *recipe.columns], *(["7", *r] for r in rows)]
                )
    return folder


FEW = {"batch": 20, "epochs": 0.5, "beams": 2}


@pytest.mark.parametrize("name", ["sst2", "mnli"])
@pytest.mark.parametrize("lora", [None, 2])
def test_classifiers_are_measured_on_public_rows(
    recipes: ModuleType, name: str, lora: int | None, tmp_path: Path
) -> None:
    data = made_up(tmp_path / "data", name, recipes.RECIPES[name])
    model = model_folder(tmp_path / "tiny")
    found = recipes.run(name, data, model, tmp_path / "out", 3.0, lora, FEW)
    assert 2.9 < found["epsilon"] <= 3.0
    assert 0 <= found["accuracy"] <= 100
    rows = {"sst2": 12, "mnli": 9}[name]  # of MNLI a row in four has no label
    assert float(found["accuracy"] * rows / 100) == pytest.approx(round(found["accuracy"] * rows / 100), abs=0.01)
    assert (tmp_path / "out" / "adapter_config.json").exists() is (lora is not None)
    assert discreet.verify(tmp_path / "out", strict=True).accepted
    said = recipes.shown(found)
    assert f"published: {found['published'][0]['accuracy']} at epsilon 3" in said
    assert {"sst2": 93.9, "mnli": 86.3}[name] == found["published"][0]["accuracy"]


def test_bleu_of_written_texts(recipes: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed; it is in the extra bleu")
    data = made_up(tmp_path / "data", "e2e", recipes.RECIPES["e2e"])
    found = recipes.run("e2e", data, model_folder(tmp_path / "tiny"), tmp_path / "out", 8.0, 2, FEW)
    assert 0 <= found["BLEU"] <= 100
    assert discreet.verify(tmp_path / "out", strict=True).accepted
    assert "published: 61.5 at epsilon 3 (Li et al. 2022" in recipes.shown(found)
    assert "published: 63.2 at epsilon 8 (Li et al. 2022" in recipes.shown(found)


class Speaks:
    """A tokenizer of words, and a model that always writes the same text."""

    eos_token_id = 0

    def __init__(self, text: str) -> None:
        self.words = text.split()

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [1] * len(text.split())}

    def generate(self, *, input_ids: Any, **_: Any) -> Any:
        import torch

        return torch.cat([input_ids, torch.arange(len(self.words))[None]], 1)

    def decode(self, tokens: Any, **_: Any) -> str:
        return " ".join(self.words[place] for place in tokens)


def test_bleu_is_that_of_all_references_of_a_meaning(recipes: ModuleType) -> None:
    """A text that is one of two references has BLEU 100; against the other one alone it has less."""
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed; it is in the extra bleu")
    said = Speaks("the mill is a cheap pub near the river")
    rows = [{"mr": "m", "ref": "a pub near the river is called the mill"}, {"mr": "m", "ref": " ".join(said.words)}]
    assert recipes.bleu(said, said, rows, 9, 1) == pytest.approx(100)
    assert 0 < recipes.bleu(said, said, rows[:1], 9, 1) < 60


def test_only_what_is_said_of_a_meaning_is_predicted(recipes: ModuleType, tmp_path: Path) -> None:
    from discreet.jobs.language.base_folder import load_for
    from discreet.language import TASKS

    tokenizer, _ = load_for(model_folder(tmp_path / "tiny"), TASKS["causal-lm"], (), "a test")
    rows = recipes.rows_of(recipes.RECIPES["e2e"], [{"mr": "a film", "ref": "about dogs"}], tokenizer, 0)
    _, labels = rows[0]
    predicted = labels[labels != -100]
    assert tokenizer.decode(predicted) == "about dogs [END]"


def test_a_public_file_that_is_the_private_one_is_refused(recipes: ModuleType, tmp_path: Path) -> None:
    data = made_up(tmp_path / "data", "sst2", recipes.RECIPES["sst2"])
    (data / "dev.tsv").write_bytes((data / "train.tsv").read_bytes())
    with pytest.raises(InputError, match=r"is a copy of .*train\.tsv, which is private"):
        recipes.run("sst2", data, tmp_path, tmp_path / "out", 3.0, None, FEW)
    (data / "dev.tsv").unlink()
    with pytest.raises(InputError, match=r"dev\.tsv is missing"):
        recipes.run("sst2", data, tmp_path, tmp_path / "out", 3.0, None, FEW)
    (data / "dev.tsv").write_text("sentence\tkind\n")
    with pytest.raises(InputError, match="has no column 'label'"):
        recipes.run("sst2", data, tmp_path, tmp_path / "out", 3.0, None, FEW)
