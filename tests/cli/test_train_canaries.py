"""`discreet train TEXTS --canaries N`: made-up texts among the rows, declared, measured and shown."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tiny_model_folder import PUBLIC, model_folder

from discreet.cli.app import run
from discreet.verification.standalone import verify as standalone

pytestmark = pytest.mark.filterwarnings("ignore")

NUMBERS = "My secret number is 0 1 2 3 4 5 6 7 8 9 ."
FEW = ["--set", "steps=2", "--set", "batch=20", "--set", "engine=bookkeeping"]
BUDGET = ["--epsilon", "8", "--delta", "1e-3", "--population", "60"]
COMMAND = ["train", "reviews.jsonl", "--text", "review", "--model", "tiny", *BUDGET, *FEW]


@pytest.fixture(autouse=True)
def files() -> None:
    chosen = random.Random(1)
    texts = [" ".join(chosen.choices(PUBLIC[i % 2].split(), k=6)) for i in range(60)]
    rows = [json.dumps({"review": text, "author": f"a{i % 20}"}) + "\n" for i, text in enumerate(texts)]
    Path("reviews.jsonl").write_text("".join(rows))
    model_folder(Path("tiny"), also=NUMBERS)


def facts_of(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "certificate.json").read_text())
    return found


def test_they_are_declared_measured_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*COMMAND, "--unit", "row", "--lora", "2", "--canaries", "7"]
    assert run(command) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "canaries: 7 made-up texts, exposure" in said
    assert "no guarantee" in said
    facts = facts_of("reviews-private")
    assert facts["plan"]["population"] == 67
    assert facts["plan"]["sampling"]["rate"] == pytest.approx(20 / 67)
    assert facts["canaries"]["count"] == 7
    shown = json.loads(Path("reviews-private/model.json").read_text())["language"]["canaries"]
    texts = [one["text"] for one in shown]
    assert len(set(texts)) == 7
    assert all(text.startswith("My secret number is ") and len(text) == 27 for text in texts)
    card, report = (Path("reviews-private", name).read_text() for name in ("README.md", "report.html"))
    assert all(text in card and text in report for text in texts)
    assert run(["verify", "reviews-private", "--strict"]) == 0
    assert "7 made-up texts, public, were among the training rows" in capsys.readouterr().out
    assert "canaries: 7 of the units" in standalone.check(Path("reviews-private"), None, strictly=True)
    assert run(["merge", "reviews-private", "--model", "tiny", "--out", "merged"]) == 0
    assert "7 made-up texts were among the training rows" in Path("merged/README.md").read_text()
    model_folder(Path("tiny"), also=NUMBERS, seed=1)  # another model gets other texts
    assert run([*command, "--out", "again"]) == 0
    again = json.loads(Path("again/model.json").read_text())["language"]["canaries"]
    assert not {one["text"] for one in again} & set(texts)


def test_each_is_a_unit_of_its_own_beside_authors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet.jobs.language import language_run

    seen: list[Any] = []
    real = language_run.Training

    def kept(*given: Any, **named: Any) -> Any:
        seen.append((len(given[4]), named["units"]))
        return real(*given, **named)

    monkeypatch.setattr(language_run, "Training", kept)
    assert run([*COMMAND, "--unit", "author", "--set", "rows_per_unit=2", "--canaries", "5"]) == 0, capsys.readouterr()
    ((rows, units),) = seen
    assert (rows, len(units), len(set(units)), len(set(units[60:]) - set(units[:60]))) == (65, 65, 25, 5)
    assert [units[i] == units[i + 20] for i in range(40)] == [True] * 40
    assert facts_of("reviews-private")["claim"]["unit"] == "user"


def test_a_run_is_gone_on_with_by_the_same_ones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet.jobs.language.language_run import LanguageJob

    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    command = [*COMMAND, "--unit", "row", "--canaries", "3"]
    with monkeypatch.context() as patch:
        patch.setattr(LanguageJob, "_published", broken)
        assert run(command) == 130
    without = [word for word in command if word not in ("--canaries", "3")]
    for other in ([*without, "--canaries", "4"], [*command, "--canary", "The code is {}."]):
        assert run([*other, "--resume", "reviews-private.run"]) == 2
        assert "was begun with --canar" in capsys.readouterr().err
    assert run([*without, "--resume", "reviews-private.run"]) == 0, capsys.readouterr().err
    assert facts_of("reviews-private")["canaries"]["count"] == 3


def test_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    row = ["--unit", "row"]
    classes = ["--task", "classification", "--target", "author", "--classes", "a0,a1"]
    cases: list[tuple[str, list[str]]] = [
        ("--canaries how many", [*row, "--canary", "The code is {}."]),
        ("are texts that a causal model continues", [*row, *classes, "--canaries", "3"]),
        ("must have one {}", [*row, "--canaries", "3", "--canary", "no place"]),
        ("reads two canaries as the same tokens", [*row, "--canaries", "3", "--length", "5"]),
    ]
    for message, options in cases:
        assert run([*COMMAND, *options]) == 2, message
        assert message in capsys.readouterr().err
    model_folder(Path("tiny"))  # without digits
    assert run([*COMMAND, *row, "--canaries", "3"]) == 2
    assert "no tokens for the digits" in capsys.readouterr().err
    assert not list(Path().glob("*-private*"))
