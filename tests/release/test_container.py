"""The container's files: what they copy is there, and a linter finds nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()


def linter() -> str | None:
    return shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


@pytest.mark.skipif(linter() is None, reason="hadolint is not installed here")
def test_the_linter_finds_nothing() -> None:
    found = subprocess.run([str(linter()), str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.skipif(linter() is None, reason="hadolint is not installed here")
def test_the_linter_can_find_something(tmp_path: Path) -> None:
    wrong = tmp_path / "Dockerfile"
    wrong.write_text("FROM python\nRUN cd /x && sudo pip install torch\n")
    assert subprocess.run([str(linter()), str(wrong)], capture_output=True, check=False).returncode == 1


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+)$", TEXT, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in ignored


def test_the_last_stage_has_no_rights() -> None:
    last = TEXT.rsplit("FROM ", 1)[1]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE)
    assert "pip" not in last


def test_the_folder_for_editors_is_json() -> None:
    facts = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert "environment dev" in facts["postCreateCommand"]
