"""Comments of a draft on columns whose numbers can be read in two ways: in 1.234 the mark separates thousands, or
decimals."""

from __future__ import annotations

from collections.abc import Mapping

from discreet.data.tables.drafting.draft_column import quoted
from discreet.data.tables.files.column_kinds import Kind
from discreet.data.tables.files.csv_format import CsvFormat


def careful(kinds: Mapping[str, Kind], csv: CsvFormat, *, found_out: bool) -> dict[str, str]:
    """The comment for each such column, by its name. `found_out`: nobody said what the thousands mark is."""
    if csv.thousands is None:
        return {name: _decimal(name, csv.decimal) for name, kind in kinds.items() if kind.grouped}
    if not found_out or any(kind.thousands == "sure" for kind in kinds.values()):
        return {}
    telling = [name for name, kind in kinds.items() if kind.pointed]
    doubtful = [name for name, kind in kinds.items() if kind.thousands == "open"]
    return {name: _thousands(name, csv.decimal, csv.thousands, telling) for name in doubtful}


def _decimal(name: str, mark: str) -> str:
    other = "," if mark == "." else "."
    return (
        f"  # CAREFUL: every {mark!r} in {quoted(name)} stands before three digits, and is read as the decimal mark.\n"
        f"  # If it separates thousands, say so in csv, above: csv: {{decimal: {other!r}, thousands: {mark!r}}}\n"
    )


def _thousands(name: str, decimal: str, mark: str, telling: list[str]) -> str:
    some = f" in {quoted(telling[0])}" if telling else ""
    more = f" and {len(telling) - 1} more" if len(telling) > 1 else ""
    return (
        f"  # CAREFUL: every {mark!r} in {quoted(name)} stands before three digits, and is read as separating "
        f"thousands\n  # (1{mark}234 is 1234), only because the decimal mark{some}{more} is {decimal!r}.\n"
        f"  # If it is the decimal mark, write decimal: {mark!r} and no thousands in csv, above.\n"
    )
