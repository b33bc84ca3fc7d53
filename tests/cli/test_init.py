"""What `discreet init` writes runs as it is, and replaces nothing."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from discreet.cli.app import run
from discreet.cli.commands.init import Kind

DEFAULTS = {Kind.TABLE: "table-start", Kind.IMAGES: "images-start", Kind.MODULE: "train_private.py"}


def test_the_table_trains_by_the_commands_in_its_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "table"]) == 0
    monkeypatch.chdir("table-start")
    commands = re.findall(r"^#   (discreet .*)$", Path("schema.yaml").read_text(), re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["train", "verify", "predict"]
    for command in commands:
        assert run(shlex.split(command)[1:]) == 0, command
    out = capsys.readouterr().out
    accuracy = float(re.search(r"public test accuracy ([\d.]+)%", out)[1])  # type: ignore[index]
    assert accuracy > 65  # the larger class has 56 % of the made-up volunteers
    assert "ACCEPTED" in out


def test_the_images_train_by_the_commands_in_their_schema_and_by_their_colour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In colour; made grey, ripe and unripe are alike (accuracy 0.99 to 1 in 12 runs in colour)."""
    assert run(["init", "images"]) == 0
    monkeypatch.chdir("images-start")
    luma = {
        kind: np.mean([np.asarray(Image.open(path).convert("L")).max() for path in Path("photos", kind).iterdir()])
        for kind in ("ripe", "unripe")
    }
    assert abs(luma["ripe"] - luma["unripe"]) < 3
    commands = re.findall(r"^#   (discreet .*)$", Path("photos.yaml").read_text(), re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["plan", "train", "verify", "predict"]
    for command in commands:
        assert run(shlex.split(command)[1:]) == 0, command
    said = capsys.readouterr()
    assert "images as 24 x 24 pixels, rgb" in said.out
    assert "ACCEPTED" in said.out
    accuracy = float(re.search(r"public test accuracy ([\d.]+)%", said.out)[1])  # type: ignore[index]
    assert accuracy > 85
    assert json.loads(Path("model/model.json").read_text())["inputs"] == [3, 24, 24]
    rows = [line.split(",") for line in Path("predictions.csv").read_text().splitlines()[1:]]
    right = np.mean([path.split("/")[0] == kind for path, kind, *_ in rows])
    assert right == pytest.approx(accuracy / 100)


def test_the_module_trains_publishes_and_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "module", "--out", "mine.py"]) == 0
    with torch.random.fork_rng():
        runpy.run_path("mine.py", run_name="__main__")
    assert (Path("mine-model") / "report.html").is_file()
    assert "ACCEPTED" in capsys.readouterr().out


def test_what_there_is_to_start_from_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "patients.csv"]) == 2
    said = "Invalid value for 'kind': 'patients.csv' is not one of 'table', 'images', 'module'."
    assert capsys.readouterr().err == f"discreet: {said}\n"


@pytest.mark.parametrize("kind", Kind)
def test_nothing_is_overwritten(kind: Kind, capsys: pytest.CaptureFixture[str]) -> None:
    there = Path(DEFAULTS[kind])
    there.write_text("mine")
    assert run(["init", kind.value]) == 2
    assert there.read_text() == "mine"
    assert "exists already" in capsys.readouterr().err
    assert run(["init", "module", "--out", "mine.txt"]) == 2
    assert sorted(Path().iterdir()) == [there]


def test_a_file_in_the_way_of_a_folder_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").touch()
    assert run(["init", "table", "--out", "file/start"]) == 2
    assert (
        capsys.readouterr().err
        == f"discreet: cannot write file/start: {Path.cwd() / 'file'} is no folder; name another\n"
    )


def test_names_with_spaces_can_be_pasted_and_a_name_in_the_wrong_place_is_told_the_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["init", "module", "my net.py"]) == 2
    assert "say --out 'my net.py'" in capsys.readouterr().err
    assert run(["init", "module", "--out", "my net.py"]) == 0
    assert capsys.readouterr().out == "my net.py: run it with python 'my net.py'\n"
    assert "    python 'my net.py'\n" in Path("my net.py").read_text()
