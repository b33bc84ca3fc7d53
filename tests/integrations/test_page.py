"""The examples of the page on integrations run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import discreet

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("package", "folder"), [("lightning", "from-lightning"), ("peft", "from-hugging-face")])
def test_an_example_runs_and_is_accepted(
    package: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    (code,) = [one for one in re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if folder in one]
    exec(compile(code, "integrations.md", "exec"), {})
    assert discreet.verify(tmp_path / folder).accepted
