"""Mistakes with data at sites, for `test_site_mistakes`; written down as by `shared_mistakes`.

torchrun --nproc-per-node 2 site_mistakes.py FOLDER MISTAKE...
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import blobs, tiny_plan
from shared_mistakes import OTHER, RANK, main, run
from shared_runs import WHOSE
from site_runs import ROWS, SITES, site, sites, training
from torch.utils.data import Dataset

from discreet.core.errors import InputError
from discreet.data import Sites
from discreet.distributed import team
from discreet.distributed.site_draws import SiteDraws
from discreet.plan import FixedSizeSampling, Metric, Plan
from discreet.randomness import TestStream

ALL = list(range(SITES))


def a_site_twice(folder: Path) -> None:
    run(training(folder, data=sites([0, 2] if RANK == 0 else [1, 2])))


def a_site_missing(folder: Path) -> None:
    run(training(folder, data=sites([0] if RANK == 0 else [1])))


def other_counts(folder: Path) -> None:
    run(training(folder, data=Sites({number: site(number) for number in ([0, 2] if RANK == 0 else [1])}, 3 + RANK)))


def a_count_of_numpy(folder: Path) -> None:
    """No mistake: such a number counts as any other."""
    run(training(folder, data=Sites(sites([0, 2] if RANK == 0 else [1]).rows, np.int64(SITES))))  # type: ignore[arg-type]


def a_number_too_large(folder: Path) -> None:
    run(training(folder, data=Sites({0: site(0), 2: site(2)} if RANK == 0 else {3: site(1)}, SITES)))


def no_site(folder: Path) -> None:
    run(training(folder, data=sites([] if OTHER else ALL)))


def no_sites_in_one(folder: Path) -> None:
    run(training(folder, data=blobs() if OTHER else sites(ALL)))


def lanes_too(folder: Path) -> None:
    run(training(folder, lanes=4 if OTHER else None))


def all_rows_at_each(folder: Path) -> None:
    """A program that reads all rows in every process, and calls them its site."""
    run(training(folder, data=Sites({RANK: blobs()}, 2)))


def the_same_rows_at_two(folder: Path) -> None:
    """Few enough rows not to be too many together."""
    rows = site(0)
    run(training(folder, data=Sites({0: rows, 2: site(2)} if RANK == 0 else {1: rows}, SITES)))


def another_form(folder: Path) -> None:
    """Rows that are made one after the other, where the other process has tensors."""
    run(training(folder, data=Sites({1: [*zip(*site(1), strict=True)]}, SITES) if OTHER else sites([0, 2])))


def a_row_that_is_no_number(folder: Path) -> None:
    """What is wrong with a row is said where the row is, and nowhere else."""
    inputs, targets = site(1)
    inputs[1, 0] = torch.nan
    run(training(folder, data=Sites({1: (inputs, targets)}, SITES) if OTHER else sites([0, 2])))


def a_fixed_size(folder: Path) -> None:
    plan = Plan.make(
        FixedSizeSampling(batch=8),
        population=24,
        steps=3,
        clip_norm=0.7,
        delta=1e-5,
        noise_multiplier=2.0,
        adjacency="replace_one",
    )
    run(training(folder, plan=plan))


def a_holdout_by_place(folder: Path) -> None:
    """Rows have no names of their own, and their places depend on the process that holds them."""
    metric = Metric(kind="accuracy", noise=20.0, every=2, rows="holdout")
    run(training(folder, plan=tiny_plan(metrics=(metric,), holdout=0.3, adjacency="zero_out")))


def no_users(folder: Path) -> None:
    """One process does not say whose its rows are site by site."""
    plan = tiny_plan(population=6, batch=2, unit="user", rows_per_unit=2)
    given = {1: WHOSE[ROWS[1]]} if OTHER else WHOSE
    run(training(folder, plan=plan, units=given))


def another_stream(folder: Path) -> None:
    run(training(folder, stream=TestStream(7 + RANK)))


def a_row_that_is_gone(folder: Path) -> None:
    """A data set that cannot read a row any more, in a step, and says which."""
    rows, gone = [*zip(*site(1), strict=True)], []

    class File(Dataset[Any]):
        def __len__(self) -> int:
            return len(rows)

        def __getitem__(self, row: int) -> Any:
            if gone and OTHER:
                raise InputError(f"row {row} of the file at site 1 is gone")
            return rows[row]

    held = {1: File()} if OTHER else {number: [*zip(*site(number), strict=True)] for number in (0, 2)}

    def take_away(step: int) -> None:
        if step == 1:
            gone.append(True)

    run(training(folder, data=Sites(held, SITES), plan=tiny_plan(batch=24)), take_away)


def a_site_computed_twice(folder: Path) -> None:
    real = SiteDraws.chunks
    with pytest.MonkeyPatch.context() as patch:
        if OTHER:
            patch.setattr(SiteDraws, "chunks", lambda self, drawn, units: 2 * real(self, drawn, units))
        run(training(folder))


def a_unit_left_out(folder: Path) -> None:
    """In one process a unit too few is added, in the other one too many: together the number is right."""
    real = SiteDraws.chunks

    def shifted(self: SiteDraws, drawn: object, units: int) -> list[tuple[int, range]]:
        found = real(self, drawn, units)  # type: ignore[arg-type]
        lane, places = found[0]
        return found[1:] if OTHER else [(lane, places), (lane, places), *found[1:]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SiteDraws, "chunks", shifted)
        run(training(folder, plan=tiny_plan(batch=24)))


def unnoticed(folder: Path) -> None:
    """A draw of one process that another process cannot see: its counts are for itself alone."""
    told: list[object] = []
    real = team.Team.check_step

    def noted(self: team.Team, *given: object) -> None:
        facts = self.ranks.all_facts
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                type(self.ranks), "all_facts", lambda ranks, what, fact: told.append(fact) or facts(what, fact)
            )
            real(self, *given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team.Team, "check_step", noted)
        run(training(folder))
    assert told
    assert all(fact[3] == 1 for fact in told)  # type: ignore[index]


MISTAKES: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        a_site_twice,
        a_site_missing,
        other_counts,
        a_count_of_numpy,
        a_number_too_large,
        no_site,
        no_sites_in_one,
        lanes_too,
        all_rows_at_each,
        the_same_rows_at_two,
        another_form,
        a_row_that_is_no_number,
        a_fixed_size,
        a_holdout_by_place,
        no_users,
        another_stream,
        a_row_that_is_gone,
        a_site_computed_twice,
        a_unit_left_out,
        unnoticed,
    )
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:], MISTAKES)
