"""`discreet train FOLDER` from images with a sub-folder for each class, or an index, to a verified folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from discreet.cli.app import run
from discreet.cli.show.prices import unmeasured
from discreet.jobs.tables.table_facts import TableFacts
from discreet.jobs.tables.table_source import TableSource, recipe_for
from discreet.training import Training

FEW = ["--set", "steps=4", "--set", "averaging.start=2", "--set", "engine=bookkeeping", "--epsilon", "8"]
FEW += ["--delta", "1e-3", "--json"]


def stripes(across: bool, generator: np.random.Generator) -> Image.Image:
    """A noisy image of 12 x 12 pixels with stripes of one of two directions."""
    waves = np.sin(np.arange(12) + generator.uniform(0, 6))[:, np.newaxis] + generator.normal(0, 0.2, (12, 12))
    found = np.clip(128 + 60 * (waves.T if across else waves), 0, 255).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(found))


def write(rows: int = 120, public: int = 40) -> None:
    """private/ and public/ with down/ and across/; index.csv beside them names the same images, three a patient."""
    generator = np.random.Generator(np.random.PCG64(1))
    lines = ["file,kind,patient"]
    for folder, count in (("private", rows), ("public", public)):
        for i in range(count):
            kind = ("down", "across")[i % 2]
            path = Path(folder, kind, f"{i}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            stripes(bool(i % 2), generator).save(path)
            lines += [f"{path},{kind},p{i // 3}"] if folder == "private" else []
    Path("index.csv").write_text("\n".join(lines) + "\n")


def trained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["train", *arguments]) == 0, capsys.readouterr().err
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run(["verify", facts["folder"]]) == 0
    capsys.readouterr()
    return facts


def test_from_a_folder_to_a_verified_one(capsys: pytest.CaptureFixture[str]) -> None:
    """It learns directions in 60 steps at epsilon 8 (accuracy 1 in 20 runs with fresh noise)."""
    write()
    longer = ["--set", "steps=60", "--set", "averaging.start=30"]
    facts = trained(["private/", "--test", "public", "--population", "120", *FEW, *longer], capsys)
    assert facts["folder"] == "private-private"
    assert facts["public_test"]["accuracy"] > 0.8
    model = json.loads(Path("private-private/model.json").read_text())
    assert model["inputs"] == [1, 28, 28]
    assert model["table"]["schema"]["columns"]["class"]["categories"] == ["across", "down"]
    assert sorted(path.name for path in Path().iterdir()) == sorted(
        ["index.csv", "private", "private-private", "private-private.run", "public"]
    )

    Path("public/down/0.png").rename("public/0.png")  # new images may lie anywhere
    assert run(["predict", "private-private", "public"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "path,class,probability,p(across),p(down)"
    rows = [line.split(",") for line in lines]
    assert [row[0] for row in rows[:2]] == ["0.png", "across/1.png"]
    right = [row[1] == ("down" if row[0] == "0.png" else row[0].split("/")[0]) for row in rows]
    assert np.mean(right) == facts["public_test"]["accuracy"]
    assert all(abs(float(row[3]) + float(row[4]) - 1) < 1e-4 for row in rows)


def test_an_index_with_several_images_of_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was interrupted goes on; metrics are shown by subgroup."""
    write()
    declared = {
        "columns": {"file": {"type": "image", "size": 12}}
        | {name: {"type": "category", "categories": ["down", "across"]} for name in ("kind", "seen")},
        "target": "kind",
        "unit": "patient",
        "population": 40,
        "subgroups": ["seen"],
    }
    Path("s.yaml").write_text(yaml.safe_dump(declared))
    lines = [f"public/{kind}/{i}.png,{kind},down" for i in range(40) for kind in [("down", "across")[i % 2]]]
    Path("public.csv").write_text("\n".join(["file,kind,seen", *lines]))
    Path("index.csv").write_text(Path("index.csv").read_text().replace("\n", ",down\n").replace("ent,down", "ent,seen"))

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = ["train", "index.csv", "--schema", "s.yaml", "--test", "public.csv", *FEW]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "take_steps", fails)
        assert run(command) == 130
    capsys.readouterr()
    facts = trained(["--resume", "index-private", "--json"], capsys)
    assert 0 <= facts["public_test"]["seen=down: accuracy"] <= 1
    certificate = json.loads(Path("index-private/certificate.json").read_text())
    assert certificate["claim"]["unit"] == "user"
    Path("new.csv").write_text("file\nprivate/down/0.png\n")
    assert run(["predict", "index-private", "new.csv"]) == 0
    assert capsys.readouterr().out.startswith("file,kind,probability,p(down),p(across)\nprivate/down/0.png,")


def test_how_a_folder_is_measured_is_said_of_folders() -> None:
    """Paths name its images, so rows can be held out without a schema."""
    write()
    facts = {"epsilon": 3.0, "population": 120.0}
    said = unmeasured(recipe_for(Path("private"), TableFacts(), [], facts), TableSource(Path("private"), None))
    assert said[0].startswith("nothing measures the model: --test FOLDER does, on images that may be public; --holdout")
    assert "row_id" not in said[0]


def test_a_drafted_schema_with_treatments_and_rows_held_out(capsys: pytest.CaptureFixture[str]) -> None:
    write()
    assert run(["schema", "private", "--out", "s.yaml"]) == 0
    capsys.readouterr()
    schema = yaml.safe_load(Path("s.yaml").read_text())
    assert schema["population"] == "FILL_IN"
    schema["columns"]["path"] |= {"mode": "rgb", "fit": "pad", "unreadable": "drop"}
    Path("s.yaml").write_text(yaml.safe_dump(schema | {"population": 120}))
    Path("private/down/0.png").write_bytes(b"no image")
    trained(["private", "--schema", "s.yaml", "--holdout", "30%", *FEW], capsys)
    assert json.loads(Path("private-private/model.json").read_text())["inputs"] == [3, 28, 28]
    Path("public/down/2.png").write_bytes(b"no image")
    assert run(["predict", "private-private", "public/down"]) == 0
    lines = dict(line.split(",", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["2.png"] == ",,,"
    assert lines["4.png"] != ",,"
