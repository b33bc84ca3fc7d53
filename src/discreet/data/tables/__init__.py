"""Tables with a schema: read in blocks, encoded row by row, kept in a private file while a run lasts.

Names are loaded on first use: what reads a schema or a header waits for no torch.
"""

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use

if TYPE_CHECKING:
    from discreet.data.tables.bought import (
        buy_columns,
        columns_bought,
        counts_bought,
        events_bought,
        provisional,
        refuse_bought,
        what_of,
        with_bought,
    )
    from discreet.data.tables.columns import Date
    from discreet.data.tables.encoder import Encoder
    from discreet.data.tables.files.csv_format import CsvFormat
    from discreet.data.tables.files.reading import blocks, is_table
    from discreet.data.tables.schema import Schema, load_schema
    from discreet.data.tables.table import PublicTable, image_paths, named, new_rows, private_table, public_table

_HOMES = {
    **dict.fromkeys(
        (
            "buy_columns",
            "columns_bought",
            "counts_bought",
            "events_bought",
            "provisional",
            "refuse_bought",
            "what_of",
            "with_bought",
        ),
        ".bought",
    ),
    "Date": ".columns",
    "Encoder": ".encoder",
    "CsvFormat": ".files.csv_format",
    **dict.fromkeys(("blocks", "is_table"), ".files.reading"),
    **dict.fromkeys(("Schema", "load_schema"), ".schema"),
    **dict.fromkeys(("PublicTable", "image_paths", "named", "new_rows", "private_table", "public_table"), ".table"),
}

__all__ = [
    "CsvFormat",
    "Date",
    "Encoder",
    "PublicTable",
    "Schema",
    "blocks",
    "buy_columns",
    "columns_bought",
    "counts_bought",
    "events_bought",
    "image_paths",
    "is_table",
    "load_schema",
    "named",
    "new_rows",
    "private_table",
    "provisional",
    "public_table",
    "refuse_bought",
    "what_of",
    "with_bought",
]

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
