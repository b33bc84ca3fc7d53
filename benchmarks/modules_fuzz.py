"""Random modules against one backward pass per example: whether any unit moves a clipped sum by more than it may.

python benchmarks/modules_fuzz.py --out results.jsonl [--first 0] [--cases 10000]   (resumable; prints a table)

A case is made from its number: a chain of building blocks (tests/support/fuzz_blocks.py), a loss of torch.nn, a way to
clip, rows of 1e-20 to 1e20, units of one row or several. What is asked of each engine is in
tests/support/fuzz_verdict.py: that its sum is the plain one (in double precision, if not in single), and that no unit
that leaves moves it by more than the sensitivity and the float slack that a rehearsal declares.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from fuzz_cases import case
from fuzz_verdict import ALONE, TOGETHER, judged

OFTEN = 5
"""One case of so many is also given to the engines that take every row alone."""


def look(number: int) -> dict[str, Any]:
    """What is found in the case of this number; whatever is raised is wrong, too."""
    try:
        found = case(number)
        verdict = judged(found, TOGETHER if number % OFTEN else (*TOGETHER, *ALONE))
    except Exception as error:
        return {"number": number, "names": [], "wrong": [f"{type(error).__name__}: {error}"]}
    return {"number": number, "names": found.names, "units": found.most > 1, **asdict(verdict)}


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of RESULTS.md."""
    used = Counter(name for row in rows for name in set(row["names"]))
    yield f"{len(rows):,} cases of {len(used)} blocks, losses and ways to clip, the rarest {min(used.values())} times."
    yield ""
    yield "| engine | cases | refused | asked of a rehearsal | most moved, over 1 and the slack | rounded | wrong |"
    yield "|---|---|---|---|---|---|---|"
    for engine in (*TOGETHER, *ALONE):
        seen = [row for row in rows if engine in row.get("moved", {})]
        refused = sum(engine in row.get("refused", {}) for row in rows)
        asked, rounded = (sum(engine in row.get(what, []) for row in rows) for what in ("rehearsed", "rounded"))
        most = max((row["moved"][engine] / row["allowed"][engine] for row in seen), default=0.0)
        wrong = sum(text.startswith(engine) for row in rows for text in row["wrong"])
        yield f"| {engine} | {len(seen):,} | {refused} | {asked} | {most:.7f} | {rounded} | {wrong} |"


def main() -> None:
    """Add what is missing, then print the table and all that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first case of this file, for runs side by side")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("discreet").setLevel(logging.ERROR)
    done = len(options.out.read_text().splitlines()) if options.out.exists() else 0
    with options.out.open("a") as out:
        for number in range(options.first + done, options.first + options.cases):
            out.write(json.dumps(look(number)) + "\n")
            out.flush()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    for line in table(rows):
        print(line)
    for row in rows:
        for text in row["wrong"]:
            print(f"case {row['number']} {', '.join(row['names'])}: {text}")


if __name__ == "__main__":
    main()
