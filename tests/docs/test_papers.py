"""The pages of the papers are what was measured, and what they show runs (in fewer steps)."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from discreet.cli.app import run
from discreet_papers.papers import PAPERS

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

import paper_pages  # noqa: E402

NAMES = sorted(set(PAPERS) - {"all"})


@pytest.mark.parametrize("paper", NAMES)
def test_a_page_is_what_the_results_say(paper: str) -> None:
    """Written anew by `python scripts/paper_pages.py`."""
    assert (ROOT / "docs" / "papers" / f"{paper}.md").read_text("utf-8") == paper_pages.page(paper)


@pytest.mark.parametrize("paper", NAMES)
def test_the_method_runs_on_a_table_of_ones_own(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_LEDGER", str(tmp_path / "ledger.db"))
    page = (ROOT / "docs" / "papers" / f"{paper}.md").read_text("utf-8").replace("\\\n", " ")
    commands = [line for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S) for line in block.splitlines()]
    assert sum(" train " in command for command in commands) >= 1
    for command in commands:
        fewer = ["--set", "steps=60"] if " train " in command else []
        assert run(shlex.split(command)[1:] + fewer) == 0, capsys.readouterr().err
    assert "ACCEPTED" in capsys.readouterr().out


def test_tables_come_first_and_each_kind_by_its_number() -> None:
    items = ["Figure 10 and Table IV", "Figure 2", "Table III", "Figures 4 and 13", "Table II, Figures 5 and 12"]
    ordered = ["Table II, Figures 5 and 12", "Table III", "Figure 2", "Figures 4 and 13", "Figure 10 and Table IV"]
    assert sorted(items, key=paper_pages.place) == ordered
