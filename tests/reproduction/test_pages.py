"""Laws over the committed pages and pictures of results: what a first reader needs is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from discreet_papers.experiment import read_experiment
from discreet_papers.measure.store import Store
from discreet_papers.pages.figures import _looks

ROOT = Path(__file__).parents[2]
RESULTS, PAGES = ROOT / "recipes" / "results", ROOT / "docs" / "results"
DONE = sorted(path.stem for path in RESULTS.glob("*.json"))


@pytest.mark.parametrize("name", DONE)
def test_a_page_says_what_is_printed_and_what_differs(name: str) -> None:
    header = read_experiment(name, "full").header
    if header.paper != "all":
        assert header.prints
        assert header.differs, f"{name} has results: say in its file what differs from the paper, and why"


@pytest.mark.parametrize("name", DONE)
def test_lines_of_a_panel_can_be_told_apart(name: str) -> None:
    store = Store(RESULTS, name, "full")
    panels = [panel for part in read_experiment(name, "full").parts for panel in part.panels(store)]
    for panel in (one for one in panels if one.lines or one.bars):
        assert panel.title
        assert panel.x
        assert panel.y or panel.bars
        looks = [(line.style, colour, marker) for line, colour, marker in _looks(panel.lines)]
        assert len(set(looks)) == len(looks), panel.title
        for names in ([line.label for line in panel.lines], [bar.label for bar in panel.bars]):
            assert panel.log == "x" or len(set(names)) == len(names), panel.title


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_tables_are_whole_and_numbers_have_few_digits(path: Path) -> None:
    columns = None
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        found = len(re.findall(r"(?<!\\)\|", line))
        assert columns in (None, found), line
        columns = found
        assert not re.search(r"\d\.\d{7}|(?<![\d.])-0\.0+(?!\d)", line), line
