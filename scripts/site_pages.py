"""Write the sources of the site to build/: python scripts/site_pages.py

The pages of docs/ stay plain Markdown that reads as it is. Here links to files outside docs/ become links to their
pages, notebooks become pages, and docs/README.md gives the navigation: a kind of page is a heading, a page a link.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from site_reference import write_reference

ROOT = Path(__file__).resolve().parents[1]
DOCS, BUILD = ROOT / "docs", ROOT / "build"
PROJECT = {
    "README.md": "index.md",
    "docs/README.md": "all-pages.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "RELEASING.md": "project/releasing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/RESULTS.md": "project/results.md",
}
"""Where pages of the repository are on the site; those of docs/ keep their place."""

APART = ("docs/figures/README.md",)
"""Pages for those who change the project."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def place(path: Path) -> str:
    """The path on the site of a file of the repository; "" if it has none."""
    name = path.relative_to(ROOT).as_posix()
    if name in PROJECT:
        return PROJECT[name]
    found = name.removeprefix("docs/")
    return "" if found == name or name in APART else re.sub(r"\.ipynb$", ".md", found)


def with_links(text: str, source: Path) -> str:
    """A page's text with links as the site has them. Files that are not on the site keep their name alone."""
    here = Path(place(source)).parent

    def linked(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        file, hash_sign, anchor = target.partition("#")
        if "://" in target or not file:
            return match[0]
        where = place((source.parent / file).resolve())
        if not where:
            return (
                words if words.startswith("`") else f"{words} (`{(source.parent / file).resolve().relative_to(ROOT)}`)"
            )
        return f"{mark}[{words}]({os.path.relpath(where, here)}{hash_sign}{anchor})"

    parts = _CODE.split(text)  # code at odd places: a link in it is none, but code may be the words of a link
    whole = _LINK.sub(linked, "".join(f"\0{i}\0" if i % 2 else part for i, part in enumerate(parts)))
    return re.sub("\0(\\d+)\0", lambda match: parts[int(match[1])], whole)


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its texts, code and outputs."""
    facts = json.loads(path.read_text("utf-8"))
    parts = [part for cell in facts["cells"] for part in _cell(cell)]
    note = f"*This page is a notebook: [{path.name}]({path.name}). A test runs it.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:
            yield f'<div class="notebook-output">{"".join(data["text/html"])}</div>'
        elif "image/svg+xml" in data:
            yield f'<div class="notebook-output">{"".join(data["image/svg+xml"])}</div>'
        elif "image/png" in data:
            picture = "".join(data["image/png"]).replace("\n", "")
            yield f'<div class="notebook-output"><img alt="" src="data:image/png;base64,{picture}"></div>'
        else:
            text = "".join(output.get("text", data.get("text/plain", "")))
            yield f"```text\n{text.rstrip()}\n```"


def write_pages(target: Path) -> None:
    left_out = shutil.ignore_patterns("*.py", "README.md", "__pycache__", ".ipynb_checkpoints")
    shutil.copytree(DOCS, target, ignore=left_out)
    for path in [*DOCS.rglob("*.md"), *(ROOT / name for name in PROJECT)]:
        if not place(path):
            continue
        to = target / place(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(with_links(path.read_text("utf-8"), path), "utf-8")
    for path in DOCS.rglob("*.ipynb"):
        (target / place(path)).write_text(with_links(notebook_page(path), path), "utf-8")


def links(path: Path) -> Iterator[tuple[str, str]]:
    """Words and place of each page that a page links to, once each, in order."""
    seen = set()
    for _, words, file in _LINK.findall(path.read_text("utf-8")):
        target = (path.parent / file.partition("#")[0]).resolve()
        if "://" not in file and target.suffix in (".md", ".ipynb") and target not in seen and place(target):
            seen.add(target)
            yield re.sub("[`*]", "", words), place(target)


def navigation() -> list[Any]:
    """Kinds of pages, as the list of all pages sorts them: ## is a kind, ### a group of it."""
    page = DOCS / "README.md"
    named = dict.fromkeys(where for _, where in links(page))
    found: list[Any] = [{"Home": "index.md"}]
    for part in re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        kind, *groups = re.split(r"^### ", part, flags=re.MULTILINE)
        heading, _, body = kind.partition("\n")
        found.append({heading: entries_of(body, named)})
        for group in groups:
            below, _, body = group.partition("\n")
            found[-1][heading].append({below: entries_of(body, named)})
    return found


def entries_of(body: str, named: dict[str, None]) -> list[Any]:
    """The pages that a part of the list links to; what only a list of its own names stands below that list."""
    entries: list[Any] = []
    for _, words, file in _LINK.findall(body):
        target = (DOCS / file.partition("#")[0]).resolve()
        below = [where for where in below_list(target) if where not in named]
        pages = [place(target), *({_title(where): where} for where in below)]
        entries.append({re.sub("[`*]", "", words): pages if below else place(target)})
    return entries


def below_list(page: Path) -> list[str]:
    """The pages of a folder whose README.md is `page`: those that it lists, in its order, and then the others."""
    if page.name != "README.md":
        return []
    listed = [where for _, where in links(page)]
    there = [place(path) for path in sorted(page.parent.glob("*.md")) if path != page]
    return sorted(there, key=lambda where: listed.index(where) if where in listed else len(listed))


def _title(where: str) -> str:
    first = next(line for line in (DOCS / where).read_text("utf-8").splitlines() if line.startswith("# "))
    return re.sub("[`*]", "", first.removeprefix("# "))


def main() -> None:
    target = BUILD / "pages"
    shutil.rmtree(target, ignore_errors=True)
    write_pages(target)
    entries = navigation()
    reference = next(one["Reference"] for one in entries if "Reference" in one)
    reference += write_reference(target)
    project = [{"Project": [where for where in PROJECT.values() if where.startswith("project/")] + ["all-pages.md"]}]
    settings = {"INHERIT": "../mkdocs.yml", "docs_dir": "pages", "site_dir": "site", "nav": entries + project}
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), "utf-8")
    print(f"{len(list(target.rglob('*.md')))} pages in {target}")


if __name__ == "__main__":
    main()
