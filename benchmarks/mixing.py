"""Models whose rows meet now and then, against the engines of a run: is each refused, or bounded in every step?

    python benchmarks/mixing.py [--steps 2000] [--only NAME] [--engines bookkeeping,ghost,auto,reference,exact]

Each model of tests/support/mixing_modules.py and mixing_late.py is given to `Training` with each engine. What is
admitted takes `steps` clipped sums of 60 rows, the last of them 50 times longer, and of the other 59 from the same
random numbers. The two may differ by one clip norm. Chunks that are done row by row are slow: what comes late, and
engines that run rows apart, are given a tenth of the steps.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from mixing_late import BACK, LATE
from mixing_modules import ALWAYS, RARELY
from mixing_runs import moves

from discreet.core.errors import DiscreetError

ENGINES = ("bookkeeping", "ghost", "auto", "reference", "exact")
SLOW = ("reference", "exact")
SUMMARY = "{} pairs of a model and an engine: {} refused, {} admitted; the largest sum moved by {:.6f} clip norms"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--only", default="")
    parser.add_argument("--engines", default=",".join(ENGINES))
    options = parser.parse_args()
    logging.disable()
    refused, found = 0, []
    for name, kind in {**ALWAYS, **RARELY, **LATE, **BACK}.items():
        for engine in options.engines.split(",") if options.only in name else ():
            steps = options.steps // 10 if engine in SLOW or name in LATE else options.steps
            try:
                worst = moves(kind, engine, steps)
            except DiscreetError as error:
                refused += 1
                print(f"{name:38} {engine:12} refused: {str(error)[:110]}", flush=True)
                continue
            found.append(worst)
            print(f"{name:38} {engine:12} at most {worst:.6f} in {steps} steps", flush=True)
    print(SUMMARY.format(refused + len(found), refused, len(found), max(found, default=0.0)))


if __name__ == "__main__":
    main()
