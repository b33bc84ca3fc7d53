"""The line of an error that is repeated in another one's."""

import pytest

from discreet.core.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError(), "ValueError"),
        (ValueError(""), "ValueError"),
        (RuntimeError("\n  after an empty line \nmore"), "after an empty line"),
        (KeyError("name"), "'name'"),
    ],
)
def test_first_line(error: Exception, line: str) -> None:
    assert first_line(error) == line
