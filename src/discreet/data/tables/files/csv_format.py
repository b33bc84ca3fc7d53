"""How a text file of a table is written."""

from __future__ import annotations

import codecs
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from discreet.plan.pydantic_base import Frozen

_OF_ESCAPES = ("hz", "idna", "iso2022", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7")
"""Encodings begin with these in which characters of a row may end it, or change how the next rows are read."""

One = Annotated[str, Field(min_length=1, max_length=1)]


class CsvFormat(Frozen):
    """How a CSV file is written. Lines at its top that start with `comment` are left out, after `skip` lines.

    `thousands`: what parts the thousands of a number, 1.234,5. `trim`: spaces around a value do not count. `newlines`:
    quoted values may have several lines.
    """

    delimiter: One = ","
    quote: One = '"'
    decimal: One = "."
    thousands: One | None = None
    header: bool = True
    skip: Annotated[int, Field(ge=0)] = 0
    comment: str | None = None
    encoding: str = "utf-8"
    trim: bool = True
    newlines: bool = False

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            found = codecs.lookup(value)
            found.incrementaldecoder()
            known = found._is_text_encoding and "a,1".encode(found.name).decode(found.name) == "a,1"
        except (LookupError, ValueError, TypeError):  # codecs of Python's own that are no encodings of texts
            known = False
        if not known:
            raise ValueError("unknown encoding; for example utf-8, latin-1, cp1252, utf-16")
        if found.name.startswith(_OF_ESCAPES):
            raise ValueError("one row may change how the next are read in this encoding; convert the file to utf-8")
        return str(found.name)

    @model_validator(mode="after")
    def _marks_differ(self) -> CsvFormat:
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}; a line could be read in two ways")
        for name in ("delimiter", "quote", "decimal", "thousands"):
            if not (getattr(self, name) or "").isascii():
                raise ValueError(f"{name} must be an ASCII character, got {getattr(self, name)!r}")
        if self.thousands == self.decimal:
            raise ValueError(f"thousands and decimal are both {self.decimal!r}; a number could be read in two ways")
        return self
