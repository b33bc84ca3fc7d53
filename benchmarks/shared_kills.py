"""Kill one of three processes of a run at a random point, go on with another number of them, and look at what is left.

    python benchmarks/shared_kills.py --runs 60 [--seed 0] [--shard fully] [--points part forced index removed]

The points are those of tests/support/killed_run.py: draw, add, send, noise, gather, part, forced, and for the first
process charge, charged, commit, index, removed. A run counts as sound if it ends, is charged for all its steps and not
less than before, no noise comes twice, no step is taken twice, and the folder verifies. The time that the other
processes take to notice is shown.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS / "support"), str(TESTS / "distributed")]

from forked import started  # noqa: E402
from killed_run import POINTS, STEPS  # noqa: E402
from test_shared_kills import charged, check_left, finish  # noqa: E402

ONLY_FIRST = ("charge", "charged", "commit", "index", "removed")
WITH_SHARDS = ("part", "forced")
"""Points that only the first process has, and where it has them alone without shards."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", choices=["replicate", "fully"], default="replicate")
    parser.add_argument("--points", nargs="*", choices=POINTS, default=POINTS)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    points: collections.Counter[str] = collections.Counter()
    unsound, slowest, missed = [], 0.0, 0
    for number in range(options.runs):
        point, step = generator.choice(options.points), generator.randrange(STEPS)
        first = point in ONLY_FIRST or (point in WITH_SHARDS and options.shard == "replicate")
        rank, then = 0 if first else generator.randrange(3), generator.choice([1, 2, 4])
        points[point] += 1
        with tempfile.TemporaryDirectory() as name:
            folder, start = Path(name), time.monotonic()
            done = started(3, "killed_run.py", name, options.shard, point, str(step), str(rank), timeout=180)
            missed += done.returncode == 0
            slowest, before = max(slowest, time.monotonic() - start), charged(folder)
            try:
                finish(folder, then, options.shard)
                check_left(folder, before)
            except AssertionError as error:
                unsound.append((number, point, step, rank, then, str(error)[:200]))
                print("UNSOUND", *unsound[-1], flush=True)
    print(f"{options.runs} kills ({dict(points)}): {len(unsound)} unsound; the slowest killed run took {slowest:.0f} s")
    if missed:
        print(f"{missed} runs came to their end before the point at which a process was to be killed")
    sys.exit(bool(unsound or missed))


if __name__ == "__main__":
    main()
