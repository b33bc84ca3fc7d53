"""Entries of the changelog can be gathered: a file each, of a kind that the changelog has."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = {"privacy", "added", "changed", "removed"}
ENTRIES = sorted(path for path in (ROOT / "changes").iterdir() if path.suffix == ".md")


def test_each_entry_is_of_a_kind_that_readers_look_for() -> None:
    for path in ENTRIES:
        assert path.name.startswith("+"), f"{path.name}: name it +a-few-words.KIND.md"
        assert path.name.split(".")[1:-1] in [[kind] for kind in KINDS], f"{path.name}: KIND is one of {KINDS}"


def test_a_release_gathers_every_entry() -> None:
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for path in ENTRIES:
        assert path.read_text().splitlines()[0] in draft, path.name
