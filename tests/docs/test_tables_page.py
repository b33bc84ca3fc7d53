"""What the page on tables shows, runs (in fewer steps), and the schema of Adult fits its files."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from discreet.cli.app import run
from discreet.data.tables import Encoder, Schema, load_schema, public_table
from discreet.plan.pydantic_base import validate

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tables.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks("python"):
        exec(compile(code, "tables.md", "exec"), {})
    Path("patients.yaml").write_text(blocks("yaml")[0])
    fewer = ["--set", "steps=5", "--set", "averaging.start=0", "--set", "engine=bookkeeping"]
    for command in (line for block in blocks("sh") for line in block.splitlines()):
        assert run(shlex.split(command)[1:] + (fewer if " train " in command else [])) == 0, capsys.readouterr().err
    assert "ACCEPTED" in capsys.readouterr().out
    known = set(yaml.safe_load(Path("patients.yaml").read_text())["columns"])
    assert set(yaml.safe_load(Path("draft.yaml").read_text())["columns"]) == known


def test_the_other_pieces_of_schemas_are_such() -> None:
    whole, several, bought = (yaml.safe_load(block) for block in blocks("yaml"))
    validate(Schema, whole | several, "page")
    validate(Schema, whole | {"columns": whole["columns"] | bought}, "page")


def test_the_schema_of_adult() -> None:
    """Every category of both files is declared (native-country: "?" is missing), and every number is in its range."""
    data = os.environ.get("DISCREET_DATA")
    if data is None or not (Path(data) / "adult").is_dir():
        pytest.skip("needs DISCREET_DATA/adult")
    schema = load_schema(DOCS / "tables" / "adult.yaml")
    strict = {
        name: {**column.model_dump(exclude_none=True), **({"outside": "refuse"} if column.type == "number" else {})}
        | ({"unseen": "refuse"} if column.type == "category" else {})
        for name, column in schema.columns.items()
    }
    encoder = Encoder(schema.changed(columns=strict))
    for name, rows, rich in (("adult.data", 32_561, 7_841), ("adult.test", 16_281, 3_846)):
        found = public_table(Path(data) / "adult" / name, encoder)
        assert len(found.targets) == rows
        assert int(found.targets.sum()) == rich
        assert int(found.groups["sex=Female"].sum() + found.groups["sex=Male"].sum()) == rows
