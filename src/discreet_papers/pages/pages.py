"""From results to pages: NAME.md with the tables, NAME.png with the picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discreet_papers.experiment import Experiment
from discreet_papers.measure.store import Measured, Store
from discreet_papers.papers import PAPERS
from discreet_papers.part import Part


def write(experiment: Experiment, store: Store, folder: Path) -> Path:
    """Write the page of an experiment, and its picture if it has one; returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = experiment.name if experiment.mode == "full" else f"{experiment.name}.{experiment.mode}"
    panels = [panel for part in experiment.parts for panel in part.panels(store) if panel.lines or panel.bars]
    picture = folder / f"{stem}.png"
    if panels:
        from discreet_papers.pages.figures import draw

        draw(panels, picture, experiment.header.columns)
    page = folder / f"{stem}.md"
    page.write_text(text(experiment, store, picture.name if panels else None), encoding="utf-8")
    return page


def text(experiment: Experiment, store: Store, picture: str | None) -> str:
    """The page as Markdown. All its figures are from the results."""
    header, paper = experiment.header, PAPERS[experiment.header.paper]
    blocks = [f"# {header.title}", f"{paper.full}. **{header.item}.**", header.shows.strip()]
    if header.prints:
        blocks.append(f"**The paper prints:** {header.prints.strip()}")
    if header.differs and experiment.mode == "full":
        blocks.append(f"**What differs, and why:** {header.differs.strip()}")
    if experiment.mode == "quick":
        blocks.append("**A quick run:** it shows that the experiment works. Its figures are not those of the paper.")
    for part in experiment.parts:
        blocks += _tables(part, store)
    if picture is not None:
        blocks.append(f"![{header.title}]({picture})")
        captions = [panel.caption for part in experiment.parts for panel in part.panels(store) if panel.caption]
        blocks += list(dict.fromkeys(captions))
    blocks.append(_made(experiment, store))
    return "\n\n".join(blocks) + "\n"


def _tables(part: Part, store: Store) -> list[str]:
    """The tables of a part, or a note that nothing of it was measured."""
    tables, cells = part.tables(store), part.cells(None)
    if cells and tables and not any(cell in store for cell in cells):
        return [f"**{tables[0].title or 'More'}:** not measured yet."]
    return [table.markdown() for table in tables]


def _made(experiment: Experiment, store: Store) -> str:
    """The command, its time, its date and its versions."""
    wanted = {cell.key for _, cell in experiment.cells()}
    done = [one for one in store.cells if one.key in wanted]
    flags = "" if experiment.mode == "full" else " --quick"
    data = " --data DIR" if experiment.header.data else ""
    lines = [f"`discreet reproduce {experiment.name}{flags}{data}` makes this page."]
    missing = len(wanted) - len(done)
    if missing:
        lines.append(f"**{missing} of {len(wanted)} cells are not measured yet.**")
    if done:
        minutes = sum(one.seconds for one in done) / 60
        lines.append(f"{len(done)} cells took {_minutes(minutes)} CPU-minutes ({_when(done)}; {_with(done)}).")
    if any("recipe" in one.facts for one in done if one.seed is not None):
        lines.append("Noise and batches are drawn anew in every run; a seed fixes initial weights that are random.")
    elif any(one.seed is not None for one in done):
        lines.append("Runs of one seed draw the same random numbers.")
    return " ".join(lines)


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.2g}"


def _when(done: Sequence[Measured]) -> str:
    days = sorted({one.date for one in done})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _with(done: Sequence[Measured]) -> str:
    """The versions, or the source of the results."""
    found = sorted({", ".join(f"{name} {version}" for name, version in one.made.items()) for one in done})
    return "; ".join(found)
