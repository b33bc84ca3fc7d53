"""Runs that several processes take together: the same releases and weights, bit for bit, on any number of processes.

One process runs here, with the same lanes; the others are forked, and in one test started by torchrun.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from forked import forked
from shared_runs import CASES, LANES, digest_of
from torchrun import torchrun

from discreet.clipping import ENGINES
from discreet.plan.clip_rules import CLIP_RULES
from discreet.sampling import SAMPLERS

SHARED = {"shard": "replicate", "lanes": LANES}
SOME = (
    "vmap, exact noise",
    "exact, fast noise",
    "poisson, user",
    "cyclic, example",
    "adaptive clipping",
    "metrics",
    "an early end",
)
"""Of every kind of case one, for the first tier."""

Start = Callable[..., str]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What one process releases in a case."""
    return cache(lambda name: digest_of(CASES[name], tmp_path_factory.mktemp("alone") / "run", SHARED)[0])


def check(
    alone: Callable[[str], str], processes: int, names: tuple[str, ...], folder: Path, start: Start = forked
) -> None:
    (line,) = start(processes, "shared_runs.py", str(folder), *names).splitlines()
    assert json.loads(line) == {name: alone(name) for name in names}


def test_two_processes_release_what_one_does(tmp_path: Path, alone: Callable[[str], str]) -> None:
    check(alone, 2, SOME, tmp_path)


def test_so_do_two_that_torchrun_starts(tmp_path: Path, alone: Callable[[str], str]) -> None:
    check(alone, 2, SOME[:2], tmp_path, torchrun)


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_every_way_to_train_is_the_same_on_any_number_of_processes(
    tmp_path: Path, alone: Callable[[str], str], processes: int
) -> None:
    """All ways on two processes, with `SOME` in the first test; and half of them on three, the others on four: of what
    stands side by side in `CASES`, as two noises of an engine or two units of a sampling, one on each."""
    names = tuple(name for name in CASES if name not in SOME)
    if processes > 2:
        names = tuple(name for i, name in enumerate(CASES) if (i % 4 in (0, 3)) == (processes == 3))
    check(alone, processes, names, tmp_path)


@pytest.mark.parametrize("name", ["exact, fast noise", "exact, exact noise"])
def test_exact_sums_are_those_of_a_run_without_lanes(tmp_path: Path, name: str) -> None:
    with_lanes, _ = digest_of(CASES[name], tmp_path / "lanes", SHARED)
    without, made = digest_of(CASES[name], tmp_path / "none", {})
    assert made.team.lanes is None
    assert with_lanes == without


def test_other_lanes_are_other_chunks(tmp_path: Path) -> None:
    """The digests can differ: sums of other chunks round otherwise, and dropout has other numbers."""
    name = "dropout, bookkeeping"
    one, _ = digest_of(CASES[name], tmp_path / "a", SHARED)
    other, _ = digest_of(CASES[name], tmp_path / "b", SHARED | {"lanes": 2})
    assert one != other


def test_every_engine_sampling_and_clip_rule_has_a_case() -> None:
    """Budgets of single units are refused in several processes (test_refusals)."""
    text = " ".join(CASES)
    words = {"poisson": "poisson", "fixed_size": "fixed", "truncated_poisson": "truncated", "cyclic_poisson": "cyclic"}
    samplings = {words.get(kind, kind) for kind in SAMPLERS} - {"individual"}
    rules = set(CLIP_RULES) - {"flat", "grouped"} | {"groups"}
    assert [one for one in {*ENGINES, *samplings, *rules} if one not in text] == []
