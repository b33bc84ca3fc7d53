"""What git leaves alone in a checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("link", [False, True], ids=["folder", "link"])
def test_an_environment_is_never_added(tmp_path: Path, link: bool) -> None:
    """Neither as a folder nor as a link to one: once a link is in a commit, whoever checks it out loses theirs."""
    elsewhere = tmp_path / "elsewhere"
    checkout = tmp_path / "checkout"
    for folder in (elsewhere, checkout):
        folder.mkdir()
    (checkout / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    subprocess.run(["git", "init", "-q", checkout], check=True)
    if link:
        (checkout / ".venv").symlink_to(elsewhere)
    else:
        (checkout / ".venv").mkdir()
        (checkout / ".venv" / "pyvenv.cfg").write_text("")
    subprocess.run(["git", "add", "-A"], cwd=checkout, check=True)
    added = subprocess.run(["git", "ls-files"], cwd=checkout, check=True, capture_output=True, text=True).stdout
    assert added.split() == [".gitignore"]
