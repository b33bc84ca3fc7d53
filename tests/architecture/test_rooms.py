"""A reader finds a room, and a room is not crowded; no file needs another that needs it."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import discreet

SOURCE = Path(discreet.__file__).parent.parent
FILES = sorted(path for package in ("discreet", "discreet_papers") for path in (SOURCE / package).rglob("*.py"))
MOST = 16
MIRRORS = ("cli", "verification", "recipes/sections")
"""Rooms with a file of the same name for what they offer, check or read of another room."""


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {dotted(path): path for path in FILES}


def imported(path: Path) -> Iterator[str]:
    """The files that a file imports, at any depth and for types too. Packages name files; they are left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name and MODULES[name] != path and MODULES[name].name != "__init__.py":
                yield name


def test_no_file_needs_another_that_needs_it() -> None:
    needs = {name: set(imported(path)) for name, path in MODULES.items() if path.name != "__init__.py"}
    free = True
    while free:  # take away what needs nothing that is left
        free = {name for name, others in needs.items() if not others & needs.keys()}
        needs = {name: others for name, others in needs.items() if name not in free}
    assert needs == {}


def test_no_folder_is_crowded() -> None:
    count = Counter(str(path.parent.relative_to(SOURCE)) for path in FILES)
    assert {folder: files for folder, files in count.items() if files > MOST} == {}


def test_a_file_name_occurs_once() -> None:
    library = [path.relative_to(SOURCE / "discreet") for path in FILES if path.is_relative_to(SOURCE / "discreet")]
    rooms = [path.name for path in library if not path.as_posix().startswith(MIRRORS)]
    assert {name for name, files in Counter(rooms).items() if files > 1} == {"__init__.py", "base.py"}


def test_the_papers_are_loaded_by_one_command_only() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in FILES
        for name in imported(path)
        if name.startswith("discreet_papers") and path.is_relative_to(SOURCE / "discreet")
    }
    assert users == {"discreet/cli/commands/reproduce.py"}
