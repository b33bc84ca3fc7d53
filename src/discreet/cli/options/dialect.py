"""Options for the format of a .csv file; by default it is found out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.core.errors import InputError

if TYPE_CHECKING:
    from discreet.data.tables.files.csv_format import CsvFormat

AUTO = "auto"
_SPELLED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_MARKS = {"delimiter": "such as , or ; or tab", "decimal": ". or ,", "thousands": "such as . or , or space, or none"}
_PANEL = "How a .csv file is written"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a .csv file is written; each field is an option, and `auto` is found out."""

    delimiter: Annotated[
        str,
        typer.Option("--delimiter", help="What parts the values: , or ; or tab or |.", rich_help_panel=_PANEL),
    ] = AUTO
    encoding: Annotated[
        str,
        typer.Option("--encoding", help="How text is encoded: utf-8, utf-16, latin-1, cp1252.", rich_help_panel=_PANEL),
    ] = AUTO
    decimal: Annotated[
        str, typer.Option("--decimal", help="The decimal mark of numbers: . or ,", rich_help_panel=_PANEL)
    ] = AUTO
    thousands: Annotated[
        str,
        typer.Option("--thousands", help="What parts the thousands of numbers, or none.", rich_help_panel=_PANEL),
    ] = AUTO
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line is data.", rich_help_panel=_PANEL)] = (
        False
    )
    newlines: Annotated[
        bool, typer.Option("--newlines", help="Quoted values may have line breaks.", rich_help_panel=_PANEL)
    ] = False

    def format(self) -> tuple[CsvFormat, list[str]]:
        """The given format, and the names of the fields to find out. `InputError` for an impossible format."""
        from discreet.data.tables.files.csv_format import CsvFormat
        from discreet.data.tables.files.dialect import FOUND_OUT
        from discreet.plan.pydantic_base import validate

        said = {name: getattr(self, name) for name in FOUND_OUT}
        if said["decimal"] == AUTO:  # of . and , one parts thousands, so the other is the decimal mark
            said["decimal"] = {".": ",", ",": "."}.get(_SPELLED.get(self.thousands, self.thousands), AUTO)
        given = {name: _SPELLED.get(value, value) for name, value in said.items() if value not in (AUTO, "none")}
        for name, value in given.items():
            if name != "encoding" and value.isascii() and (len(value) != 1 or value.isalnum()):
                raise InputError(f"--{name} is one mark, {_MARKS[name]}; got {value!r}")
        csv = validate(CsvFormat, {"header": not self.no_header, "newlines": self.newlines} | given, "options")
        return csv, [name for name, value in said.items() if value == AUTO]


FOUND = Dialect()
