"""Days of tables: what is said of those that do not fit."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from discreet.core.errors import InputError
from discreet.data.tables import Encoder, Schema, public_table
from discreet.data.tables.drafting.draft import draft
from discreet.data.tables.drafting.draft_column import Known
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.dialect import FOUND_OUT
from discreet.plan.pydantic_base import validate

SEEN = {"type": "date", "low": "2021-01-01", "high": "2025-01-01", "outside": "refuse"}


@pytest.mark.parametrize("target", ["seen", "ill"])
@pytest.mark.parametrize("kind", ["csv", "day", "time"])
def test_a_day_out_of_range_is_told_with_days_and_not_with_their_numbers(
    kind: str, target: str, tmp_path: Path
) -> None:
    facts = {"columns": {"seen": SEEN, "ill": {"type": "boolean"}}, "target": target, "unit": "row"}
    path = tmp_path / ("t.csv" if kind == "csv" else "t.parquet")
    if kind == "csv":
        path.write_text("seen,ill\n2022-03-04,yes\n2019-12-31,no\n")
    else:
        days = pa.array([19055, 18261], pa.date32())
        seen = days if kind == "day" else days.cast(pa.timestamp("us"))
        pq.write_table(pa.table({"seen": seen, "ill": [True, False]}), path)
    with pytest.raises(InputError) as refused:
        public_table(path, Encoder(validate(Schema, facts, "schema")))
    midnight = " 00:00:00" if kind == "time" else ""
    assert f"row 2, column 'seen': '2019-12-31{midnight}' is outside of 2021-01-01 to 2025-01-01" in str(refused.value)


def test_a_large_range_of_numbers_is_told_to_the_last_digit(tmp_path: Path) -> None:
    columns = {"paid": {"type": "number", "low": 0, "high": 1234567, "outside": "refuse"}, "ill": {"type": "boolean"}}
    (tmp_path / "t.csv").write_text("paid,ill\n1234568,yes\n")
    facts = {"columns": columns, "target": "ill", "unit": "row"}
    with pytest.raises(InputError, match="'1234568' is outside of 0 to 1234567"):
        public_table(tmp_path / "t.csv", Encoder(validate(Schema, facts, "schema")))


def test_a_public_table_proposes_the_days_of_a_date_that_is_predicted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,due\n31,2021-01-01\n40,2021-05-02\n")
    (tmp_path / "public.csv").write_text("age,due\n30,2021-02-03\n50,2021-11-30\n")
    known = Known("due", "row", 100, (tmp_path / "public.csv",))
    found = yaml.safe_load(draft(tmp_path / "t.csv", CsvFormat(), FOUND_OUT, known))
    assert found["columns"]["due"]["type"] == "date"
    assert found["columns"]["due"]["low"] <= datetime.date(2021, 2, 3)
    assert found["columns"]["due"]["high"] >= datetime.date(2021, 11, 30)
