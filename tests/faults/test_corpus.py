"""Inputs that once broke the rule: each says what was wrong, and new ones are made small. (test_fuzz tries them.)"""

from __future__ import annotations

from collections.abc import Sequence

from fault_corpus import entries, shrunk


def test_every_input_says_what_was_wrong() -> None:
    for name, entry in entries().items():
        assert set(entry) == {"arguments", "files", "was", "code", "said"}, name
        assert entry["was"], name
        assert entry["code"] in (0, 1, 2, 3), name


def test_an_input_is_made_as_small_as_what_is_wrong_with_it() -> None:
    def fails(arguments: Sequence[str], files: dict[str, bytes]) -> bool:
        return "--bad" in arguments and "t.csv" in arguments and b"\xff" in files["t.csv"]

    given = ["train", "t.csv", "--epsilon", "1", "--bad", "x", "--steps", "3"]
    arguments, files = shrunk(given, {"t.csv": b"a,b\n" * 50 + b"\xff" + b"1,2\n" * 50, "other": b"kept"}, fails)
    assert arguments == ["t.csv", "--bad"]
    assert files == {"t.csv": b"\xff", "other": b"kept"}
