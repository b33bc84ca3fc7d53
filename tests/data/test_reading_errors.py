"""Errors of the system as a reader of tables says them."""

from pathlib import Path

import pytest

from discreet.core.errors import InputError
from discreet.data.tables.files.reading_errors import said_plainly


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "t.csv"), "cannot read t.csv: Permission denied"),
        (OSError("Parquet file size\n is 0 bytes"), "cannot read t.csv: Parquet file size is 0 bytes"),
    ],
)
def test_the_reason_alone_is_said(error: OSError, said: str) -> None:
    with pytest.raises(InputError) as caught, said_plainly(Path("t.csv")):
        raise error
    assert str(caught.value) == said
