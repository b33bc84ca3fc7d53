"""Errors of the system as a reader of tables says them."""

from pathlib import Path

import pytest

from discreet.core.errors import InputError
from discreet.data.tables.files.reading_errors import said_plainly


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "t.csv"), "cannot read t.csv: Permission denied"),
        (OSError("not a Parquet\n file"), "cannot read t.csv: not a Parquet file"),
        (OSError("Parquet file size is 0 bytes"), "t.csv is empty; give a table with at least one row"),
    ],
)
def test_the_reason_alone_is_said(error: OSError, said: str) -> None:
    with pytest.raises(InputError) as caught, said_plainly(Path("t.csv")):
        raise error
    assert str(caught.value) == said
