"""`discreet reproduce`: what is there is not measured again, modes do not mix, and numbers are not typed in."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet_papers.experiment import Experiment, Header, read_experiment
from discreet_papers.measure.run import measure
from discreet_papers.measure.store import Store
from discreet_papers.pages.pictures import Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Results, Setting, over

HEAD = Header(title="t", paper="yu", item="i", shows="s", minutes={"quick": 0, "full": 0}, parts=({},))  # type: ignore[arg-type]


class Counting:
    """A part with five cells, the third of which is killed once."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        self.kill = True

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        return [Cell(f"cell {i}", {"i": i}, seed) for seed in range(seeds or 1) for i in range(5)]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        if cell.name == "cell 2" and self.kill:
            self.kill = False
            raise KeyboardInterrupt
        self.measured.append(f"{cell.name} {cell.seed}")
        return {"value": cell.facts["i"] ** 2}

    def tables(self, results: Results) -> Sequence[Table]:
        return ()

    def panels(self, results: Results) -> Sequence[Panel]:
        return ()


def take(part: Counting, folder: Path, seeds: int | None = None) -> int:
    experiment = Experiment("counting", HEAD, "full", (part,))
    return measure(experiment, Store(folder, "counting", "full"), Setting(), seeds, lambda *_: None)


def test_a_killed_run_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    part = Counting()
    with pytest.raises(KeyboardInterrupt):
        take(part, tmp_path)
    assert [one.name for one in Store(tmp_path, "counting", "full").cells] == ["cell 0", "cell 1"]
    assert take(part, tmp_path) == 3
    assert part.measured == [f"cell {i} 0" for i in range(5)]
    assert take(part, tmp_path) == 0
    assert take(part, tmp_path, seeds=2) == 5
    assert part.measured[5:] == [f"cell {i} 1" for i in range(5)]
    assert [path.name for path in tmp_path.iterdir()] == ["counting.json"], "no temporary file is left"


def test_quick_and_full_never_mix(tmp_path: Path) -> None:
    part = Counting()
    part.kill = False
    take(part, tmp_path)
    assert Store(tmp_path, "counting", "quick").cells == []
    (tmp_path / "counting.json").rename(tmp_path / "counting.quick.json")
    with pytest.raises(InputError, match="holds full results of counting, not quick ones"):
        Store(tmp_path, "counting", "quick")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file["cells"][1]["result"].update(value=7), "cell 1 .cell 1. was changed after it was measured"),
        (lambda file: file["cells"][1].update(seconds=0.5), "was changed"),
        (lambda file: file["cells"][1]["facts"].update(i=3), "was changed"),
        (lambda file: file["cells"][0].pop("date"), "cell 0 lacks fields"),
        (lambda file: file.pop("cells"), "is not a file of results"),
        (lambda file: file.update(experiment="another"), "results of another"),
    ],
)
def test_results_that_were_tampered_with_are_refused(change: Any, words: str, tmp_path: Path) -> None:
    part = Counting()
    part.kill = False
    take(part, tmp_path)
    path = tmp_path / "counting.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=words):
        Store(tmp_path, "counting", "full")
    path.write_text("{")
    with pytest.raises(InputError, match="is not a file of results; move it away"):
        Store(tmp_path, "counting", "full")


def test_changes_are_made_mapping_by_mapping() -> None:
    assert over({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 5, "c": None}, "e": 6}) == {"a": {"b": 5}, "d": 3, "e": 6}


TINY = """
title: Tiny
paper: dropout
item: a test
shows: three steps on the digits
minutes: {quick: 0.1, full: 0.1}
parts:
  - kind: training
    seeds: 2
    recipe:
      data: digits
      model: {name: mlp, inputs: 64, outputs: 10, hidden: [4], seed: 0}
      optimizer: {name: sgd, lr: 0.1}
      population: 1437
      rate: 0.05
      steps: 3
      clip_norm: 1
      epsilon: 2
      delta: 1.0e-4
      evaluate_every: 1
      engine: bookkeeping
    versus: one
    draws: [epochs, epsilon, bars, noise]
    spending: 3
    runs:
      - {name: one, printed: 0.9}
      - {name: two, set: {schedule: "uniform:initial=3", epsilon: null, steps: 4}}
    sweeps:
      - {title: rates, x: learning rate, points: [{x: 0.1}, {x: 0.2, set: {optimizer: {lr: 0.2}}}]}
    claims:
      - {says: two is better, better: two, worse: one}
    quick: {seeds: 1, sweeps: []}
"""


def test_a_training_experiment_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    command = [
        "reproduce",
        str(tmp_path / "tiny.yaml"),
        "--out",
        str(tmp_path / "out"),
        "--pages",
        str(tmp_path / "pages"),
    ]
    assert run(command) == 0
    store = Store(tmp_path / "out", "tiny", "full")
    assert len(store.cells) == 6, "the first point of the sweep is the first run"
    for one in store.cells:
        result = one.result
        assert 0 <= result["metrics"]["accuracy"] <= 1
        assert result["curve"][-1][1] == pytest.approx(result["metrics"]["accuracy"], abs=1e-5)
        assert [row[0] for row in result["noise"]] == [result["steps"]]
        assert result["steps"] == one.facts["recipe"]["steps"]
        assert result["lower"] <= result["epsilon"]
        assert result["spending"][-1][1] == pytest.approx(result["epsilon"], rel=0.02)
    assert all(one.result["epsilon"] <= 2 for one in store.cells if "epsilon" in one.facts["recipe"])
    page = (tmp_path / "pages" / "tiny.md").read_text()
    assert "| one | 0.1 | " in page
    assert "| 90.00 |" in page
    assert "two is better" in page
    assert (tmp_path / "pages" / "tiny.png").stat().st_size > 10_000
    capsys.readouterr()
    assert run(command) == 0
    assert "0 cells measured, 6 there" in capsys.readouterr().err
    assert run([*command, "--quick"]) == 0
    assert len(Store(tmp_path / "out", "tiny", "quick").cells) == 2
    assert len(Store(tmp_path / "out", "tiny", "full").cells) == 6


def test_a_seed_is_that_of_the_weights() -> None:
    from discreet_papers.measure.runs import recipe_of

    model = {"name": "mlp", "inputs": 64, "outputs": 10, "hidden": [4]}
    base = {"data": "digits", "optimizer": {"name": "sgd", "lr": 1}, "population": 1437, "rate": 0.1, "steps": 1}
    base |= {"clip_norm": 1, "epsilon": 1, "delta": 1e-4}
    seeded = recipe_of({"recipe": base | {"model": model | {"seed": 0}}}, 5, "here")
    assert (seeded.model.model_extra or {})["seed"] == 5
    plain = recipe_of({"recipe": base | {"model": model}}, 5, "here")
    assert "seed" not in (plain.model.model_extra or {})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "no-such"], "unknown experiment 'no-such'; known: adadp-figure-1"),
        (["reproduce", "nowhere.yaml"], "cannot read nowhere.yaml"),
    ],
)
def test_errors_say_what_and_how(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("kind: training", "kind: trainin", "parts.0: unknown kind 'trainin'; known: divergence"),
        ("paper: dropout", "paper: none", "unknown paper 'none'; known: yu"),
        ("seeds: 2", "seeds: 0", "seeds: input should be greater"),
        ("better: two", "better: three", "there is no run 'three'; runs: one, two"),
        ("versus: one", "versed: one", "unknown key 'versed'"),
        ("data: digits", "data: digit", "data: unknown name; known: a9a"),
        (
            "minutes:",
            "data: [mnist]\nminutes:",
            "needs the data set mnist; give the folder that has mnist/ with --data DIR",
        ),
    ],
)
def test_faults_of_a_file_are_named(
    old: str, new: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    (tmp_path / "tiny.yaml").write_text(TINY.replace(old, new, 1))
    assert run(["reproduce", str(tmp_path / "tiny.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err


def test_a_list_shows_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "paper", "item", "about", "minutes,", "quick/full", "data", "what"]
    for name in ("yu-figure-2", "published", "lecuyer-figure-2-privacy"):
        header = read_experiment(name, "full").header
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert header.title in line
        assert header.item in line
    assert run(["reproduce", "gdp", "--list"]) == 0
    assert all(line.startswith("gdp") for line in capsys.readouterr().out.splitlines()[1:])
