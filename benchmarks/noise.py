"""Speed of noise against torch.randn, as rows for RESULTS.md. One run interleaves all contestants.

    python benchmarks/noise.py --pairs 30

Both sides use their default threads and allocate their results. Ours draws from a new sub-stream each time, so
key set-up and the AES-256-CTR key stream are included; torch.randn draws from its Mersenne twister.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import cryptography
import numpy as np
import torch

from discreet.randomness import (
    Purpose,
    Substream,
    SystemStream,
    exact_rounded_normals,
    fast_rounded_normals,
    new_run_key,
    normals,
)
from discreet.randomness.blocks import usable_cores

SCALE = 2**30
_STREAM, _STEPS = SystemStream.start(new_run_key(), 0), itertools.count()

Draw = Callable[[int], object]


def fresh() -> Substream:
    """Return a sub-stream that was never used."""
    return _STREAM.substream(Purpose.NOISE, next(_STEPS))


OURS: dict[str, Draw] = {
    "normals": lambda n: normals(fresh(), n),
    "fast rounded normals": lambda n: fast_rounded_normals(fresh(), n, SCALE),
    "exact rounded normals": lambda n: exact_rounded_normals(fresh(), n, SCALE),
}
THEIRS: dict[str, Draw] = {
    "float32": lambda n: torch.randn(n, dtype=torch.float32),
    "float64": lambda n: torch.randn(n, dtype=torch.float64),
}


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30, help="interleaved rounds for 10^6 numbers")
    pairs = parser.parse_args().pairs
    print(
        f"`python benchmarks/noise.py --pairs {pairs}`, {datetime.date.today()}, torch {torch.__version__} "
        f"({torch.get_num_threads()} threads), numpy {np.__version__}, numba {version('numba')}, "
        f"cryptography {cryptography.__version__}, "
        f"Python {platform.python_version()}, {usable_cores()} cores.\n"
    )
    print("| sampler | numbers | rounds | ns a number | ns torch float32 | ratio | ns torch float64 | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for n, rounds in ((10**6, pairs), (10**7, max(5, pairs // 5))):
        times = measure(n, rounds)
        for name in OURS:
            cells = [f"{statistics.median(times[name]) / n * 1e9:.1f}"]
            for other in THEIRS:
                cells.append(f"{statistics.median(times[other]) / n * 1e9:.1f}")
                cells.append(f"{median_ratio(times[name], times[other]):.2f}")
            print(f"| {name} | {n:,} | {rounds} | {' | '.join(cells)} |")


def measure(n: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each contestant in each round. Theirs stand between ours: A B C A B C ..."""
    contestants = OURS | THEIRS
    for draw in contestants.values():
        draw(n)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, draw in contestants.items():
            start = time.perf_counter()
            draw(n)
            times[name].append(time.perf_counter() - start)
    return times


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median over the rounds of ours / theirs: what slows a whole round cancels."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


if __name__ == "__main__":
    main()
