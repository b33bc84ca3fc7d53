"""What verify.py says in words is no more than what it proved: of this adjacency, and with delta left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_kind import published
from forging import told


@pytest.mark.parametrize(
    ("kind", "alternatives"),
    [
        ("poisson", "a row is in the data or not can be"),
        ("people", "a person is in the data or not can be"),
        ("shuffle", "a row is in the data or a blank in its place can be"),
        ("fixed size", "a row is in the data or another in its place can be"),
    ],
)
def test_between_what_nobody_can_tell(
    kind: str, alternatives: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the number of rows is public, it may tell whether a row is there: only its content is protected. Nor is a
    loss above epsilon as rare as delta: at sigma 20 and delta 1e-5 it is 75 times as likely."""
    code, said = told(published(tmp_path, kind), capsys)
    assert code == 0, said
    words = " ".join(said.split())
    assert f"In words, delta left out: whoever thinks it equally likely that {alternatives}" in words
    assert "chance" not in words.partition("Nobody has checked")[0]
