"""Blocks that repeat are one entry of a certificate, which stands for no other record than the ledger's."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from forging import facts_of
from hypothesis import given
from hypothesis import strategies as st

from discreet import InputError, verify
from discreet.certificate.equal_blocks import MOST, MOST_BYTES, shortened, written_out
from discreet.certificate.files import FORMATS
from discreet.ledger import record_digest
from discreet.verification.standalone import verify as reviewer

pytestmark = pytest.mark.usefixtures("recomputed_once")

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "run": st.just("a"),
            "kind": st.sampled_from(["attempt", "reservation", "release"]),
            "attempt": st.integers(0, 1),
            "position": st.integers(0, 6),
            "steps": st.integers(0, 2),
            "body": st.sampled_from([{}, {"event": "compose", "of": []}]),
        }
    ),
    max_size=12,
)


def charged(blocks: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """The record of a run that charged and released blocks of so many steps with so much noise."""
    record, position = [], 0
    for steps, noise in blocks:
        row = {"run": "a", "kind": "reservation", "attempt": 0, "position": position, "steps": steps, "body": [noise]}
        position += steps
        record += [row, row | {"kind": "release", "position": position, "steps": 0, "body": {}}]
    return record


@given(ROWS)
def test_any_record_is_found_again(record: list[dict[str, Any]]) -> None:
    assert written_out(shortened(record)) == record


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), max_size=20))
def test_equal_neighbours_are_one_entry(blocks: list[tuple[int, int]]) -> None:
    record = charged(blocks)
    short = shortened(record)
    assert written_out(short) == record
    changes = sum(one != other for one, other in itertools.pairwise(blocks))
    assert sum(row["kind"] in ("blocks", "reservation") for row in short) == (changes + 1 if blocks else 0)


def test_a_long_run_is_short() -> None:
    assert len(shortened(charged([(1000, 1)] * 1000 + [(7, 1)]))) == 3


def repeated(original: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((original / "certificate.json").read_text())
    assert [row["kind"] for row in facts["ledger"]["entries"]] == ["run", "attempt", "blocks", "reservation", "release"]
    return facts


def both(folder: Path, facts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> tuple[bool, bool]:
    (folder / "certificate.json").write_text(json.dumps(facts))
    accepted = reviewer.main([str(folder)]) == 0
    assert capsys.readouterr().out.startswith("ACCEPTED" if accepted else "REJECTED")
    return verify(folder, pages=False).accepted, accepted


def test_blocks_and_what_they_stand_for_are_both_accepted(
    original: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = repeated(original)
    assert facts["format"] == FORMATS[-1]
    assert both(folder, facts, capsys) == (True, True)
    facts["ledger"]["entries"] = written_out(facts["ledger"]["entries"])
    assert facts["ledger"]["digest"] == record_digest(facts["ledger"]["entries"])
    assert both(folder, facts, capsys) == (True, True)
    assert both(folder, facts | {"format": FORMATS[0]}, capsys) == (True, True)


def test_version_1_has_no_blocks(original: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert both(folder, repeated(original) | {"format": FORMATS[0]}, capsys) == (False, False)


@pytest.mark.parametrize("resealing", [False, True])
@pytest.mark.parametrize("times", [0, 1, 3, 100, -2, True, 2.0, "2", None, MOST, 10**30])
def test_another_count_is_rejected(
    times: Any, resealing: bool, original: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = repeated(original)
    facts["ledger"]["entries"][2]["times"] = times
    if resealing:
        try:
            facts["ledger"]["digest"] = record_digest(written_out(facts["ledger"]["entries"]))
        except InputError:
            facts["ledger"]["digest"] = hashlib.sha256(b"").hexdigest()
    assert both(folder, facts, capsys) == (False, False)


@pytest.mark.parametrize("field", ["position", "steps"])
@pytest.mark.parametrize("value", [1, 4, -3, True, 3.0, "3", 10**30])
def test_another_place_or_length_is_rejected(
    field: str, value: Any, original: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = repeated(original)
    facts["ledger"]["entries"][2][field] = value
    assert both(folder, facts, capsys) == (False, False)


def test_a_field_of_blocks_belongs_to_no_other_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(folder)
    for which in range(len(facts["ledger"]["entries"])):
        changed = facts_of(folder)
        changed["ledger"]["entries"][which]["times"] = 2
        assert both(folder, changed, capsys) == (False, False)
        (folder / "certificate.json").write_text(json.dumps(facts))


def test_the_memory_of_a_reader_is_not_filled(original: Path) -> None:
    blocks = repeated(original)["ledger"]["entries"][2]
    assert len(written_out([blocks | {"times": MOST // 2}])) == MOST
    with pytest.raises(InputError, match="more than"):
        written_out([blocks | {"times": MOST // 4}] * 3)


def test_long_blocks_do_not_fill_it_either(original: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Few entries, if each is long, are as much as many."""
    facts = repeated(original)
    blocks = facts["ledger"]["entries"][2]
    blocks["body"]["of"] *= 2 * MOST_BYTES // MOST // len(json.dumps(blocks["body"]["of"])) + 1
    for times in (MOST // 4, MOST // 2 - 9):
        blocks["times"] = times
        with pytest.raises(InputError, match="bytes"):
            written_out([blocks])
        with pytest.raises(reviewer.Stop, match="more entries than can be written out"):
            reviewer.record_of(facts)
    assert both(folder, facts, capsys) == (False, False)
