"""Write what was measured into the pages of docs/papers: python scripts/paper_pages.py

What a paper proposes, what of it is proved and what to use today is written by hand. Below the mark of a page stand its
privacy figures, and its tables and figures in their order, from the results in recipes/results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from discreet_papers.experiment import Experiment, names, read_experiment, read_header
from discreet_papers.measure.store import Store
from discreet_papers.pages.tables import Table
from discreet_papers.papers import PAPERS
from discreet_papers.parts.published import PublishedPart

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PICTURES, PAGES = ROOT / "recipes" / "results", ROOT / "docs" / "results", ROOT / "docs" / "papers"
MARK = "<!-- What follows is written by scripts/paper_pages.py, from recipes/results. -->\n"
ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5}


def place(item: str) -> tuple[bool, int, str]:
    """Where an experiment stands on its paper's page: tables, then figures, each by their first number."""
    kind, number = re.findall(r"(Table|Figure|)s?\W?(\d+|[IV]+\b|A\.1|$)", item)[0]
    return kind == "Figure" or not kind, ROMAN.get(number, int(number) if number.isdigit() else 99), item


def of(paper: str) -> list[Experiment]:
    """The paper's experiments in the order of its page."""
    found = [read_experiment(name, "full") for name in names() if read_header(name).paper == paper]
    return sorted(found, key=lambda one: place(one.header.item))


def privacy(paper: str) -> Iterator[str]:
    """Its privacy figures, and of each theorem whether it holds."""
    store = Store(RESULTS, "published", "full")
    (part,) = (
        part
        for part in read_experiment("published", "full").parts
        if isinstance(part, PublishedPart) and part.paper == paper
    )
    (whole,) = part.tables(store)
    wanted = ("where", "what", "delta", "printed", "recomputed", "certified", "the figure")
    columns = [whole.head.index(name) for name in wanted]
    yield "## Its privacy figures"
    yield (
        "Recomputed is by the paper's own formula, certified the least and the most that the same releases can lose "
        "([all five papers](../results/published.md))."
    )
    yield Table(wanted, tuple(tuple(row[column] for column in columns) for row in whole.rows)).markdown()
    theorem, why = whole.head.index("its theorem"), whole.head.index("does it hold?")
    yield "\n".join(dict.fromkeys(f"- **{row[theorem]}:** {row[why]}" for row in whole.rows))


def measured(paper: str) -> Iterator[str]:
    """Its tables and figures: printed, found, and what tells them apart. Figures as pictures, tables as such."""
    yield "## Its tables and figures"
    done = [one for one in of(paper) if (RESULTS / f"{one.name}.json").exists()]
    for one in done:
        header, store = one.header, Store(RESULTS, one.name, "full")
        yield f"### {header.item}: {header.title}"
        yield f"Printed: {header.prints.strip()}"
        yield f"Here: {header.differs.strip()}"
        picture = PICTURES / f"{one.name}.png"
        if header.item.startswith("Table") or not picture.exists():
            yield from (table.markdown() for part in one.parts for table in part.tables(store))
        else:
            yield f"![{header.title}]({os.path.relpath(picture, PAGES)})"
        yield f"[All settings and figures]({os.path.relpath(PICTURES / f'{one.name}.md', PAGES)})"
    yield from effort(paper, done)


def effort(paper: str, done: list[Experiment]) -> Iterator[str]:
    """How much of the paper was run, and what was not."""
    yield "## How far it was run"
    cells = wanted = 0
    seconds, days = 0.0, set()
    for one in done:
        keys = {cell.key for _, cell in one.cells()}
        there = [cell for cell in Store(RESULTS, one.name, "full").cells if cell.key in keys]
        wanted, cells, seconds = wanted + len(keys), cells + len(there), seconds + sum(cell.seconds for cell in there)
        days |= {cell.date for cell in there}
    yield f"{cells} of {wanted} cells, {seconds / 3600:.1f} CPU-hours, {min(days)} to {max(days)}."
    missing = [one for one in of(paper) if one not in done]
    if missing:
        yield "Not run: " + "; ".join(f"{one.header.item} (`{one.name}`)" for one in missing)


def page(paper: str) -> str:
    """The page, with what stands below its mark made anew."""
    words, _ = (PAGES / f"{paper}.md").read_text("utf-8").split(MARK)
    return words + MARK + "\n" + "\n\n".join([*privacy(paper), *measured(paper)]) + "\n"


if __name__ == "__main__":
    for paper in PAPERS:
        if paper != "all":
            text = page(paper)
            (PAGES / f"{paper}.md").write_text(text, encoding="utf-8")
            print(PAGES / f"{paper}.md")
