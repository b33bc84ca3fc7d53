"""Declarations that a run keeps from before its first step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discreet.core.errors import InputError
from discreet.ledger import QUERIES, Entry
from discreet.training.public.kept_declaration import check_kept, has_begun, keep


def test_another_declaration_is_refused_and_so_is_none(tmp_path: Path) -> None:
    keep(tmp_path / "it.json", {"rows": 3})
    check_kept(tmp_path / "it.json", {"rows": 3}, "other rows")
    for other in ({"rows": 4}, None):
        with pytest.raises(InputError, match="started with other rows"):
            check_kept(tmp_path / "it.json", other, "other rows")
    (tmp_path / "it.json").write_text("{")
    with pytest.raises(InputError, match="cannot read"):
        check_kept(tmp_path / "it.json", {"rows": 3}, "other rows")


def test_what_an_attempt_without_a_step_declared_is_forgotten(tmp_path: Path) -> None:
    """Otherwise a run that was then trained without it would say that it had been there from the first step."""
    keep(tmp_path / "it.json", {"rows": 3})
    keep(tmp_path / "it.json", None)
    check_kept(tmp_path / "it.json", None, "other rows")
    with pytest.raises(InputError, match="started with other rows"):
        check_kept(tmp_path / "it.json", {"rows": 3}, "other rows")


@pytest.mark.parametrize(
    ("engines", "begun"), [([], False), ([QUERIES], False), ([QUERIES, "exact"], True), (["exact"], True)]
)
def test_a_run_without_an_attempt_that_trains_has_not_begun(engines: list[str], begun: bool) -> None:
    bodies = [json.dumps({"engine": engine}) for engine in engines]
    record = [Entry(i, "attempt", "data", "run", i, 0, 0, body, "", "", "") for i, body in enumerate(bodies)]
    assert has_begun(record) is begun
