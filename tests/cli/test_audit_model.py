"""`discreet audit model`: figures for the holder alone, beside what the certificate allows; nothing is published."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from discreet.cli.app import run
from discreet.cli.commands.audit.model import WARNING

RECIPE: dict[str, Any] = {
    "data": "npz",
    "model": {"name": "linear", "inputs": 30, "outputs": 2},
    "optimizer": {"name": "sgd", "lr": 0.5},
    "population": 200,
    "rate": 0.5,
    "steps": 8,
    "clip_norm": 1.0,
    "epsilon": 2.0,
    "delta": 1.0e-5,
    "engine": "bookkeeping",
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a published model, its run, members and others."""
    here, rng = tmp_path_factory.mktemp("published"), np.random.default_rng(0)
    x, y = rng.random((400, 30), np.float32), rng.integers(0, 2, 400)
    np.savez(here / "d.npz", x_train=x[:200], y_train=y[:200])
    for name, part in (("members", slice(0, 200)), ("others", slice(200, 400))):
        np.savez(here / f"{name}.npz", x=x[part], y=y[part])
    (here / "r.yaml").write_text(yaml.safe_dump(RECIPE))
    arguments = [str(here / "r.yaml"), "--data", str(here / "d.npz"), "--out", str(here / "m")]
    assert run(["train", *arguments]) == 0
    return here


def told(
    capsys: pytest.CaptureFixture[str], here: Path, *arguments: str, code: int = 0, members: str = "members.npz"
) -> str:
    capsys.readouterr()
    files = ["--members", str(here / members), "--others", str(here / "others.npz")]
    assert run(["audit", "model", str(here / "m"), *files, *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code in (0, 1) else captured.err


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def test_the_first_line_says_whose_this_is_and_the_folder_stays_as_it_is(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(published / "m")
    lines = told(capsys, published).splitlines()
    assert lines[0] == WARNING
    assert lines[1].startswith("200 members, 200 others; claim: epsilon 2 at delta 1e-05")
    assert [line.split()[:2] for line in lines[3:6]] == [["loss", "0.1%:"], ["loss", "1.0%:"], ["loss", "5.0%:"]]
    assert "never a guarantee" in lines[-2]
    assert content(published / "m") == before


def test_shadow_models_and_a_picture(published: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = content(published / "m")
    found = json.loads(told(capsys, published, "--shadows", "4", "--plot", str(tmp_path / "roc.png"), "--json"))
    assert found["about"] == WARNING
    assert found["kind"] == "evidence"
    assert [one["attack"] for one in found["rates"]] == ["loss"] * 3 + ["LiRA"] * 3 + ["RMIA"] * 3
    for one in found["rates"]:
        assert one["alarms"] <= one["rate"] * 200 + 1e-9
        assert one["low"] <= one["found"] <= one["high"]
        assert one["rate"] < one["most"] < 1
    assert (tmp_path / "roc.png").stat().st_size > 10_000
    assert content(published / "m") == before


def test_what_the_certificate_allows_is_the_curve_of_its_plan(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the plan by hand: the power of its trade-off function, or of its claim where that says more."""
    from discreet.accounting.answers import attack_risk
    from discreet.plan import Plan

    facts = json.loads((published / "m" / "certificate.json").read_text())
    curve = Plan.model_validate(facts["plan"]).trade_off()
    found = json.loads(told(capsys, published, "--json"))
    for one in found["rates"]:
        most = float(curve.power(np.array([one["rate"]]))[0])
        claimed = attack_risk.from_budget(facts["claim"]["epsilon"], 1e-5).true_positive_rate(one["rate"])
        assert one["most"] == pytest.approx(min(most, claimed), rel=1e-6)


def test_an_attack_that_finds_more_ends_with_one(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Others that are not like members: their targets are the opposite of what the model says."""
    members = np.load(published / "members.npz")
    from discreet import load

    said = load(published / "m").predict(members["x"]).numpy()
    np.savez(published / "agreed.npz", x=members["x"], y=said)
    np.savez(published / "opposed.npz", x=members["x"], y=1 - said)
    files = ["--members", str(published / "agreed.npz"), "--others", str(published / "opposed.npz")]
    assert run(["audit", "model", str(published / "m"), *files]) == 1
    assert "others are not like members" in capsys.readouterr().out


def test_publishing_and_writing_into_the_folder_are_refused(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not published" in told(capsys, published, "--publish", code=2)
    inside = str(published / "m" / "roc.png")
    assert "lies in the published folder" in told(capsys, published, "--plot", inside, code=2)
    assert not Path(inside).exists()


@pytest.mark.parametrize(
    ("arguments", "members", "said"),
    [
        (["--shadows", "2"], "members.npz", "4 at least"),
        ([], "nowhere.npz", "cannot read --members"),
        ([], "r.yaml", "arrays x"),
        ([], "d.npz", "arrays x"),
        (["--shadows", "4", "--recipe", "nowhere.yaml"], "members.npz", "nowhere.yaml"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], members: str, said: str, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = told(capsys, published, *arguments, code=2, members=members)
    assert said in line
    assert len(line.strip().splitlines()) == 1


ROWS = np.random.default_rng(1).random((4, 30), np.float32)

WRONG_ROWS: dict[str, tuple[Any, Any, str]] = {
    "classes from 1": (ROWS, [1, 2, 1, 2], "y of row 2 is no class of the model; its 2 classes are 0 to 1"),
    "no class": (ROWS, [0, -1, 0, 1], "y of row 2 is no class of the model"),
    "parts of a class": (ROWS, [0, 1, 0.5, 1], "y of row 3 is no class of the model"),
    "one-hot": (ROWS, np.eye(4)[:, :2], "y has shape (4, 2); give one class for each row, such as y.argmax(1)"),
    "no rows": (ROWS[:0], [0][:0], "--members has 0 row(s); give two at least"),
    "too few targets": (ROWS, [0, 1], "x has shape (4, 30) and y has shape (2,); give a target for each row"),
    "words": (ROWS, ["a", "b", "a", "b"], "give numbers, such as 0 for the first class"),
    "another width": (ROWS[:, :7], [0, 1, 0, 1], "this model takes rows of shape (30,)"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_rows_that_the_model_cannot_answer_are_said(
    name: str, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y, said = WRONG_ROWS[name]
    np.savez(published / "wrong.npz", x=x, y=np.asarray(y))
    assert said in told(capsys, published, code=2, members="wrong.npz")


def test_others_that_are_members_are_counted(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An attack on the same rows twice finds nothing, whatever the model gives away."""
    same = told(capsys, published, members="others.npz")
    assert "200 of 200 others equal a member, target included" in same
    apart = told(capsys, published)
    assert "equal a member" not in apart
    assert json.loads(told(capsys, published, "--json"))["others_like_a_member"] == 0


def test_the_mean_loss_shows_whether_rows_are_like_those_of_training(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = np.load(published / "members.npz")
    np.savez(published / "scaled.npz", x=members["x"] * 255, y=members["y"])
    as_trained = json.loads(told(capsys, published, "--json"))["mean_loss"]
    scaled = json.loads(told(capsys, published, "--json", code=1, members="scaled.npz"))["mean_loss"]
    assert as_trained["members"] < 2 < scaled["members"]
    assert scaled["others"] == as_trained["others"]


def test_models_that_have_no_name_are_refused_by_name(
    published: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import torch

    from discreet import Plan, Training, publish
    from discreet.training import RunOptions

    plan = Plan.poisson(population=40, batch=8, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
    model, rows = torch.nn.Linear(4, 2), (torch.randn(40, 4), torch.randint(2, (40,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run_options = RunOptions(tmp_path / "run")
    trained = Training(plan, model, torch.nn.CrossEntropyLoss(), optimizer, rows, run=run_options).run(progress=False)
    publish(trained, tmp_path / "own")
    files = ["--members", str(published / "members.npz"), "--others", str(published / "others.npz")]
    assert run(["audit", "model", str(tmp_path / "own"), *files]) == 2
    assert "an audit builds a model by its name" in capsys.readouterr().err


def test_without_the_run_its_recipe_must_be_named(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = published / "m.run" / "job.json"
    facts = kept.read_bytes()
    kept.unlink()
    try:
        assert "name it with --recipe" in told(capsys, published, "--shadows", "4", code=2)
    finally:
        kept.write_bytes(facts)


def test_a_folder_that_is_not_accepted_is_not_attacked(
    published: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(published / "m", tmp_path / "m")
    facts = json.loads((tmp_path / "m" / "certificate.json").read_text())
    facts["claim"]["epsilon"] = 0.5
    (tmp_path / "m" / "certificate.json").write_text(json.dumps(facts))
    files = ["--members", str(published / "members.npz"), "--others", str(published / "others.npz")]
    assert run(["audit", "model", str(tmp_path / "m"), *files]) != 0
    assert "FAILED" not in capsys.readouterr().out


def test_of_people_with_several_rows_it_says_what_intervals_leave_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], published: Path
) -> None:
    rows = dict(np.load(published / "d.npz"))
    np.savez(tmp_path / "d.npz", **rows, units_train=np.repeat(np.arange(100), 2))
    recipe = RECIPE | {"population": 100, "unit": "user", "rows_per_unit": 2}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
    arguments = [str(tmp_path / "r.yaml"), "--data", str(tmp_path / "d.npz"), "--out", str(tmp_path / "m")]
    assert run(["train", *arguments]) == 0
    files = ["--members", str(published / "members.npz"), "--others", str(published / "others.npz")]
    said = "where a person has several, the true intervals are wider"
    for folder, of_people in ((published, False), (tmp_path, True)):
        capsys.readouterr()
        assert run(["audit", "model", str(folder / "m"), *files]) == 0
        assert (said in capsys.readouterr().out) == of_people
    assert run(["audit", "model", str(tmp_path / "m"), *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unit"] == "user"
