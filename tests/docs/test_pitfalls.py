"""The page of pitfalls: every test that it names is there, and every row is complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pitfalls.md"
HEAD = "| pitfall | severity | what goes wrong | what discreet does | guarded by |"


def rows() -> list[list[str]]:
    """The cells of every row of the tables of pitfalls."""
    found: list[list[str]] = []
    inside = False
    for line in PAGE.read_text().splitlines():
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line != HEAD and not line.startswith("|---"):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def names_in(path: Path) -> set[str]:
    """The test functions that pytest would collect there."""
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_row_is_complete() -> None:
    assert len(rows()) >= 20
    for row in rows():
        assert len(row) == 5
        assert all(row)
        assert row[1] in {"critical", "high", "medium"}
        assert re.fullmatch(r"`tests/[a-z_/]+\.py::test_\w+`", row[4]), row[4]
    names = [row[0] for row in rows()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("named", [row[4].strip("`") for row in rows()])
def test_every_named_test_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert (ROOT / path).name.startswith("test_")
    assert name in names_in(ROOT / path)


def test_no_name_on_the_page_is_left_out() -> None:
    assert len(re.findall(r"tests/\S+::", PAGE.read_text())) == len(rows())


@pytest.mark.parametrize("page", ["README.md", "docs/pitfalls.md", "docs/threat-model.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target
