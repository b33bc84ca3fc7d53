"""Every table and figure that is asked for has an experiment."""

from __future__ import annotations

import re

from discreet_papers.experiment import names, read_header

WANTED = {
    "yu": {f"Figure {n}" for n in range(1, 17)} | {"Table II", "Table III", "Table IV", "Table V"},
    "adadp": {f"Figure {n}" for n in range(1, 6)} | {"Table I", "Table II"},
    "gdp": {"Table 1", "Table 2", "Table 3", "Table 4", "Figure 2", "Figure 3", "Figure 4", "Figure A.1"},
    "lecuyer": {"Figure 1", "Figure 2"},
    "dropout": {"Table 1", "Figure 1", "Figure 2"},
}
NUMBER = r"(?:A\.1|\d+|[IV]+)"


def items(text: str) -> set[str]:
    """`Figures 4 and 13, and the epochs of Table II` as single ones; `Tables 1 to 4` as four."""
    found = set()
    for kind, tail in re.findall(
        rf"(Figure|Table)s? ({NUMBER}(?:(?: \(\w\))?(?:, | and | to |, and ){NUMBER})*)", text
    ):
        for first, last in re.findall(r"(\d+) to (\d+)", tail):
            found |= {f"{kind} {n}" for n in range(int(first), int(last) + 1)}
        found |= {f"{kind} {one}" for one in re.findall(NUMBER, tail)}
    return found


def test_items_are_read() -> None:
    assert items("Figures 4 and 13, and the epochs of Table II") == {"Figure 4", "Figure 13", "Table II"}
    assert items("Tables 1 to 3, privacy") == {"Table 1", "Table 2", "Table 3"}
    assert items("Table 1 and Figures 1 (d), (e), 2 (b)") == {"Table 1", "Figure 1"}
    assert items("Figure A.1") == {"Figure A.1"}


def test_every_table_and_figure_has_an_experiment() -> None:
    found: dict[str, set[str]] = {}
    for name in names():
        header = read_header(name)
        found.setdefault(header.paper, set()).update(items(header.item))
    assert {paper: wanted - found[paper] for paper, wanted in WANTED.items()} == {paper: set() for paper in WANTED}
