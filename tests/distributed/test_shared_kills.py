"""A process of a run is killed: what was charged stays charged, no noise comes twice, and any number of processes goes
on. `benchmarks/shared_kills.py` does the same at random, sixty times."""

import itertools
import json
from pathlib import Path

import pytest
from forked import forked, started
from killed_run import LANES, STEPS

from discreet import verify
from discreet.ledger import Ledger


def finish(folder: Path, processes: int, shard: str) -> None:
    """Take the run to its end."""
    forked(processes, "killed_run.py", str(folder), shard)


def check_left(folder: Path, before: int) -> None:
    """What is left of a run of which `before` steps were charged when it was killed."""
    assert before <= charged(folder) == STEPS
    assert verify(folder / "published").accepted
    certificate = json.loads((folder / "published" / "certificate.json").read_text())
    assert certificate["mechanism"]["lanes"] == LANES
    check_noise(folder)


def charged(folder: Path) -> int:
    if not (folder / "run" / "run.json").exists():
        return 0
    ledger = Ledger(folder / "run" / "ledger.sqlite", create=False)
    try:
        return ledger.charged_steps(json.loads((folder / "run" / "run.json").read_text())["run"])
    finally:
        ledger.close()


def check_noise(folder: Path) -> None:
    """Every number of a release got its noise once: in an attempt the parts of a step do not overlap, and no two draws
    of all attempts are the same."""
    drawn = [json.loads(line) for path in folder.glob("noise.*") for line in path.read_text().splitlines()]
    by_step: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for attempt, position, held, _ in drawn:
        by_step.setdefault((attempt, position), []).extend((first, stop) for first, stop in held)
    for parts in by_step.values():
        ordered = sorted(parts)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(ordered))
    noise = [tuple(values) for *_, values in drawn if values]
    assert len(noise) == len(set(noise)) > 0
    taken = [position for _, position in by_step]
    assert len(taken) == len(set(taken))  # a lost step is not taken again


@pytest.mark.parametrize(
    ("shard", "killed", "then"),
    [
        ("replicate", ("draw", 2, 0), 1),
        ("replicate", ("add", 4, 2), 4),
        ("replicate", ("noise", 3, 1), 2),
        ("replicate", ("charged", 3, 0), 2),
        ("fully", ("gather", 3, 1), 2),
        ("fully", ("send", 4, 0), 4),
        ("fully", ("noise", 2, 2), 1),
        ("fully", ("forced", 4, 1), 2),
        ("fully", ("index", 4, 0), 3),
    ],
)
def test_a_killed_process_loses_nothing_that_was_charged(
    tmp_path: Path, shard: str, killed: tuple[str, int, int], then: int
) -> None:
    done = started(3, "killed_run.py", str(tmp_path), shard, *map(str, killed), timeout=120)
    assert done.returncode != 0
    assert not (tmp_path / "published").exists()
    before = charged(tmp_path)
    finish(tmp_path, then, shard)
    check_left(tmp_path, before)
