"""Reviews to train a language model on, in the file formats that can be read."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

from tiny_model_folder import PUBLIC


def write_reviews(name: str, count: int = 60) -> None:
    """Reviews by 20 authors, as JSON lines, CSV or Parquet."""
    chosen = random.Random(1)
    rows = [
        {"review": " ".join(chosen.choices(PUBLIC[i % 2].split(), k=6)), "kind": "np"[i % 2], "author": f"a{i % 20}"}
        for i in range(count)
    ]
    path = Path(name)
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, ["review", "kind", "author"])
            table.writeheader()
            table.writerows(rows)
    else:
        import pyarrow as pa
        import pyarrow.parquet as pa_parquet

        pa_parquet.write_table(pa.Table.from_pylist(rows), path)
