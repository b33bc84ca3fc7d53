"""How the code is laid out, in figures: python scripts/measures.py

A change that adds a feature should not make them much worse; `tests/architecture` holds those that have a limit.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
LIBRARY = sorted((SOURCE / "discreet").rglob("*.py"))
PAPERS = sorted((SOURCE / "discreet_papers").rglob("*.py"))


def naming(word: str) -> int:
    """How many files of the library have the word in a name, whatever the case."""
    return sum(bool(re.search(word, path.read_text(), re.IGNORECASE)) for path in LIBRARY)


def asked_for_plans() -> int:
    """How often code asks which kind of plan it has."""
    kinds = re.compile(r"isinstance\([\w.]+, \(?[\w |,]*\b(Adaptive)?Plan\b")
    return sum(len(kinds.findall(path.read_text())) for path in LIBRARY)


def of_training() -> int:
    """How many parameters `Training` takes."""
    tree = ast.parse((SOURCE / "discreet" / "training" / "training.py").read_text())
    (kind,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "Training"]
    (made,) = [node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return len(made.args.args) + len(made.args.kwonlyargs) - 1


def main() -> None:
    folders = Counter(path.parent for path in LIBRARY + PAPERS)
    mirrors = ("cli/", "verification/", "recipes/sections/")
    rooms = [path for path in LIBRARY if not path.relative_to(SOURCE / "discreet").as_posix().startswith(mirrors)]
    names = Counter(path.name for path in rooms if path.name != "__init__.py")
    repeated = sum(count > 1 for count in names.values())
    step = SOURCE / "discreet" / "training" / "step.py"
    figures = {
        "lines, papers apart": sum(len(path.read_text().splitlines()) for path in LIBRARY),
        "lines of the papers": sum(len(path.read_text().splitlines()) for path in PAPERS),
        "files in the largest folder": max(folders.values()),
        "file names that occur more than once (not of rooms that mirror others)": repeated,
        "isinstance on plans": asked_for_plans(),
        "files that name one sampler (allocation)": naming("allocation"),
        "files that name one clip rule (ellipsoid)": naming("ellipsoid"),
        "parameters of Training": of_training(),
        "lines of the file with the step": len(step.read_text().splitlines()),
    }
    for name, value in figures.items():
        print(f"{value:8,}  {name}")


if __name__ == "__main__":
    main()
