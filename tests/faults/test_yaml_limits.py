"""YAML that would take all time or memory is refused before anything is built from it."""

import time
from pathlib import Path

import pytest

from discreet.core.errors import InputError
from discreet.core.yaml_files import DEEPEST, LARGEST, MOST, parse_yaml, read_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, f"more than {MOST:,} values"),
        ("[" * 5000 + "]" * 5000, f"nested more than {DEEPEST} levels"),
        ("- " * 5000 + "x", f"nested more than {DEEPEST} levels"),
        ("[x, " * MOST, "levels"),
        ("x: 2001-13-45", "month must be in 1..12"),
        ("x: " + "9" * 5000, "digits"),
        ("a: 1\na: 2", "the key 'a' is there twice"),
        ("[1, 2]: 3\n[1, 2]: 4", "unhashable|twice"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: *b", "undefined alias"),
        ("{", "expected"),
        ("\x00", "special characters|control characters"),
    ],
)
def test_is_refused_in_one_line_and_at_once(text: str, said: str) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=said) as caught:
        parse_yaml(text, "x.yaml")
    assert str(caught.value).startswith("x.yaml is not valid YAML: ")
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 10  # no speed is promised: without the limits these take hours, or all memory


def test_aliases_that_stay_small_are_read() -> None:
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: [*a, *a]\n", "x") == {"a": [1, 2], "b": [1, 2], "c": [[1, 2], [1, 2]]}


def test_numbers_without_a_point_are_numbers() -> None:
    assert parse_yaml("[1e-5, 2E+3, -1e0, 1.5e2, 1e, e5]", "x") == [1e-5, 2000.0, -1.0, 150.0, "1e", "e5"]


def test_files_have_a_size_and_a_kind(tmp_path: Path) -> None:
    import os

    large = tmp_path / "large.yaml"
    large.write_text("a: 1\n" + "#" * LARGEST)
    with pytest.raises(InputError, match=f"more than {LARGEST:,} bytes"):
        read_yaml(large)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="is a pipe, not a plain file"):
        read_yaml(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="is a device"):
        read_yaml(Path("/dev/zero"))
    with pytest.raises(InputError, match="File name too long"):
        read_yaml(tmp_path / ("n" * 300))
    (tmp_path / "latin.yaml").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError, match="no text in UTF-8; save it in that encoding"):
        read_yaml(tmp_path / "latin.yaml")


@pytest.mark.parametrize("number", ["2.000", "'2,000'", "1.200.000"])
def test_a_population_in_yaml_has_no_marks_between_its_digits(number: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"population: {number}\n")
    with pytest.raises(InputError, match=r"s\.yaml: population: .* can be read in two ways; write \d+$"):
        read_yaml(file)
    file.write_text("population: 2000.5\nrate: 2.000\nspread: 1.500\n")
    assert read_yaml(file) == {"population": 2000.5, "rate": 2.0, "spread": 1.5}
