"""Tables with a schema: read in blocks, encoded row by row, kept in a private file while a run lasts."""

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
from discreet.data.tables.categories import Boolean, BoughtCategories, Category
from discreet.data.tables.columns import Bought, Date, Ignore, Number
from discreet.data.tables.encoder import Encoded, Encoder
from discreet.data.tables.evaluation.public_metrics import check_groups, metrics_of
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.reading import blocks, is_table
from discreet.data.tables.schema import Schema, load_schema
from discreet.data.tables.table import (
    PrivateTable,
    PublicTable,
    image_paths,
    named,
    new_rows,
    private_table,
    public_table,
)

__all__ = [
    "Boolean",
    "Bought",
    "BoughtCategories",
    "Category",
    "CsvFormat",
    "Date",
    "Encoded",
    "Encoder",
    "Ignore",
    "Number",
    "PrivateTable",
    "PublicTable",
    "Schema",
    "blocks",
    "buy_columns",
    "check_groups",
    "columns_bought",
    "counts_bought",
    "events_bought",
    "image_paths",
    "is_table",
    "load_schema",
    "metrics_of",
    "named",
    "new_rows",
    "private_table",
    "provisional",
    "public_table",
    "refuse_bought",
    "what_of",
    "with_bought",
]
