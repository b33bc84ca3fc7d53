"""Runs whose weights are shared out: the same releases and weights, bit for bit, as of a run that every process takes
with the whole model, on any number of processes.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import sharded_models
from forked import forked
from sharded_runs import CASES, LANES, ROUNDED_OTHERWISE, digest_of

WHOLE = {"shard": "replicate", "lanes": LANES}
SHARDED = {"shard": "fully", "lanes": LANES}
SOME = ("rows that fail",)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What one process releases in a case, with the whole model."""

    def found(name: str) -> str:
        before = sharded_models.Failed.count
        digest, _ = digest_of(CASES[name], tmp_path_factory.mktemp("alone") / "run", WHOLE)
        assert (sharded_models.Failed.count > before) == (name == "rows that fail")
        return digest

    return cache(found)


def check(alone: Callable[[str], str], processes: int, names: tuple[str, ...], folder: Path) -> None:
    imports = ("peft",) if any(name.startswith("LoRA") for name in names) else ()
    (line,) = forked(processes, "sharded_runs.py", str(folder), *names, imports=imports).splitlines()
    assert json.loads(line) == {name: alone(name) for name in names}


def test_two_processes_with_half_of_the_weights_release_what_one_does(
    tmp_path: Path, alone: Callable[[str], str]
) -> None:
    check(alone, 2, SOME, tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_one_process_that_gathers_its_weights_releases_the_same(
    tmp_path: Path, alone: Callable[[str], str], name: str
) -> None:
    found, made = digest_of(CASES[name], tmp_path / "run", SHARDED)
    assert made.team.lockstep is not None
    assert found == alone(name)


@pytest.mark.parametrize(("processes", "first"), [(2, 0), (2, 1), (2, 2), (3, 0)])
def test_so_does_every_way_to_train_on_any_number_of_processes(
    tmp_path: Path, alone: Callable[[str], str], processes: int, first: int
) -> None:
    """All ways on two processes, in three parts and `SOME` in the test above, and every third on three."""
    names = tuple(CASES) if processes > 2 else tuple(name for name in CASES if name not in SOME)
    check(alone, processes, names[first::3], tmp_path)


def test_rows_with_long_numbers_are_the_same_on_any_number_of_processes(tmp_path: Path) -> None:
    alone, made = digest_of(ROUNDED_OTHERWISE["long rows"], tmp_path / "alone", SHARDED)
    assert made.preflight.reach < 2.0**50
    (line,) = forked(2, "sharded_runs.py", str(tmp_path / "two"), "long rows").splitlines()
    assert json.loads(line) == {"long rows": alone}
