"""What the pages on images and texts and the tutorials show, runs: on their data, in fewer steps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from discreet.cli.app import run
from discreet.data.tables import Schema
from discreet.plan.pydantic_base import validate

DOCS = Path(__file__).parents[2] / "docs"
FEWER = ["--set", "steps=2", "--set", "averaging.start=0", "--set", "engine=bookkeeping"]


def reviews() -> None:
    """In the place of the archive of reviews."""
    for part in ("train", "test"):
        for side, said in (("neg", "dull"), ("pos", "lovely")):
            for i in range(3):
                path = Path("aclImdb", part, side, f"{i}_5.txt")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f'A {said} film,<br />and "long". I saw it to {part} my eyes.')


def ratings() -> None:
    """In the place of u.data; and pairs to predict."""
    Path("movielens").mkdir()
    lines = [f"{1 + i % 9}\t{1 + i // 9}\t{1 + i % 5}\t0" for i in range(90)]
    Path("movielens/u.data").write_text("\n".join(lines) + "\n")
    Path("pairs.csv").write_text("0,0\n3,1681\n")


PAGES: dict[str, Callable[[], None] | None] = {
    "images.md": None,
    "text.md": None,
    "tutorials/adapters.md": None,
    "tutorials/digits.md": None,
    "tutorials/hospital.md": None,
    "tutorials/imdb.md": reviews,
    "tutorials/movielens.md": ratings,
    "tutorials/patients.md": None,
    "tutorials/survey.md": None,
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare = PAGES[page]
    if prepare is not None:
        prepare()
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec"), {})
    for text in blocks(page, "yaml"):
        name = re.match(r"# (\S+\.yaml)\n", text)
        if name is not None:
            Path(name[1]).write_text(text)
        if "columns" in yaml.safe_load(text):
            validate(Schema, yaml.safe_load(text), page)
    commands = [line for block in blocks(page, "sh") for line in block.splitlines()]
    assert len(commands) >= 3
    for command in commands:
        fewer = [] if " --model " in command else FEWER
        assert run(shlex.split(command)[1:] + (fewer if " train " in command else [])) == 0, capsys.readouterr().err
    assert "ACCEPTED" in capsys.readouterr().out
    written = "synthetic.csv" if page == "tutorials/adapters.md" else "predictions.csv"
    assert len(Path(written).read_text().splitlines()) > 2


def test_every_tutorial_is_listed_and_tested() -> None:
    pages = {path.name for path in (DOCS / "tutorials").glob("*.md")} - {"README.md"}
    assert pages == {Path(page).name for page in PAGES if page.startswith("tutorials/")}
    listed = set(re.findall(r"\]\((\w+\.md)\)", (DOCS / "tutorials" / "README.md").read_text()))
    assert listed == pages
