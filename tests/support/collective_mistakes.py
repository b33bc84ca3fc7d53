"""What can go wrong when sums travel by collectives, for `test_collectives`.

    torchrun --nproc-per-node 2 collective_mistakes.py FOLDER MISTAKE...

Each process writes FOLDER/MISTAKE.RANK: the kind and the words of the error that it met, and how many releases it made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sharded_runs
import torch
import torch.distributed as dist
from by_collectives import BETWEEN, by_collectives
from problems import DEVICE
from shared_mistakes import OTHER, main, run, training
from torch import Tensor

from discreet.distributed.connection.process_groups import GROUPS
from discreet.distributed.ranks import Ranks
from discreet.distributed.whole_sums import WholeSums
from discreet.training import Training

AT = 2
"""The step in which it happens."""

Scatter = Callable[..., Any]


class Ended:
    """A collective that has ended."""

    def wait(self, *_: Any) -> None:
        pass

    def is_completed(self) -> bool:
        return True


class Never:
    """A collective to which the others do not come; nobody may wait for it."""

    def wait(self, *_: Any) -> NoReturn:
        raise AssertionError("a process waits for a collective that nobody comes to")


def spoilt(folder: Path, spoil: Callable[[pytest.MonkeyPatch], None], one: Training | None = None) -> None:
    """A run that is spoilt from step `AT` on."""
    with pytest.MonkeyPatch.context() as patch:
        run(one or training(folder), lambda step: spoil(patch) if step == AT else None)


def go_away(folder: Path) -> NoReturn:
    folder.with_suffix(".1").write_text(json.dumps(["gone", "", 0]))
    os._exit(0)  # any other code would let torchrun end the process that is to find out


def a_sum_that_is_rounded(folder: Path) -> None:
    """Collectives of one process that add in single precision."""
    real = dist.reduce_scatter_tensor

    def rounded(share: Tensor, *given: Any, **named: Any) -> Any:
        real(share, *given, **named).wait()
        share.copy_(share.float().long())
        return Ended()

    with pytest.MonkeyPatch.context() as patch:
        if OTHER:
            patch.setattr(dist, "reduce_scatter_tensor", rounded)
        run(training(folder))


def elsewhere(patch: pytest.MonkeyPatch, name: str, *, here: bool = OTHER) -> None:
    """Let a collective of one process say that it has ended, and write nothing; `here`: whether of this one."""
    real = getattr(dist, name)

    def spoil(found: Tensor, *given: Any, **named: Any) -> Any:
        return real(found.clone(), *given, **named)

    if here:
        patch.setattr(dist, name, spoil)


def sharded(folder: Path) -> Training:
    return sharded_runs.training(folder, {"shard": "fully", "lanes": 4})


def a_sum_that_is_not_written(folder: Path) -> None:
    spoilt(folder, lambda patch: elsewhere(patch, "reduce_scatter_tensor"))


def sums_that_are_not_written(folder: Path) -> None:
    """Several in a step, which must not cancel."""
    spoilt(folder, lambda patch: elsewhere(patch, "reduce_scatter_tensor"), sharded(folder))


def means_that_are_not_written(folder: Path) -> None:
    """In both: one that has them may go on with them until it hears of the other."""
    spoilt(folder, lambda patch: elsewhere(patch, "all_gather_into_tensor", here=True))


def weights_that_are_not_written(folder: Path) -> None:
    """Units would count for nothing with them."""
    spoilt(folder, lambda patch: elsewhere(patch, "all_gather_into_tensor"), sharded(folder))


def weights_of_before(folder: Path) -> None:
    """A collective of one process that leaves what an earlier one of the same size has found."""
    real, before = dist.all_gather_into_tensor, {}

    def stale(found: Tensor, *given: Any, **named: Any) -> Any:
        work = real(found, *given, **named)
        work.wait()
        found.copy_(before.setdefault(len(found), found.clone()))
        return work

    spoilt(
        folder, lambda patch: patch.setattr(dist, "all_gather_into_tensor", stale) if OTHER else None, sharded(folder)
    )


def a_failure_to_begin(folder: Path) -> None:
    """One process has no memory for a collective; that of the other one never ends, as on a card."""

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise torch.OutOfMemoryError("no memory")

    def spoil(patch: pytest.MonkeyPatch) -> None:
        if OTHER:
            patch.setattr(dist, "reduce_scatter_tensor", fail)
        else:
            stuck = replace(BETWEEN, ended=lambda _: False)
            patch.setattr(GROUPS, "carrier", replace(GROUPS.carrier, backend=stuck))  # type: ignore[type-var]
            patch.setattr(dist, "reduce_scatter_tensor", lambda *_, **__: Ended())

    spoilt(folder, spoil)


def a_process_that_is_gone_before_the_sum(folder: Path) -> None:
    """The other one begins a collective, and must not wait for it."""

    def spoil(patch: pytest.MonkeyPatch) -> None:
        if OTHER:
            patch.setattr(Ranks, "added_share", lambda *_: go_away(folder))
        patch.setattr(dist, "reduce_scatter_tensor", lambda *_, **__: Never())

    spoilt(folder, spoil)


def a_process_that_is_gone_in_a_pass(folder: Path) -> None:
    """The same where weights are gathered."""

    def spoil(patch: pytest.MonkeyPatch) -> None:
        if OTHER:
            patch.setattr(Ranks, "gathered", lambda *_: go_away(folder))
        patch.setattr(dist, "all_gather_into_tensor", lambda *_, **__: Never())

    spoilt(folder, spoil, sharded(folder))


def a_failure_before_the_sum(folder: Path) -> None:
    """A process that fails after all have agreed to add."""

    def fail(*_: Any) -> NoReturn:
        raise KeyError("a private row")

    def spoil(patch: pytest.MonkeyPatch) -> None:
        if OTHER:
            patch.setattr(WholeSums, "sensitivity", fail)

    spoilt(folder, spoil)


def a_collective_that_does_not_end(folder: Path) -> None:
    """As one that hangs on the device of a process."""

    def spoil(patch: pytest.MonkeyPatch) -> None:
        if OTHER:
            stuck = replace(BETWEEN, ended=lambda _: False)
            patch.setattr(GROUPS, "carrier", replace(GROUPS.carrier, backend=stuck))  # type: ignore[type-var]

    os.environ["DISCREET_TIMEOUT"] = "3" if DEVICE == "cpu" else "30"  # processes with a card start at different times
    spoilt(folder, spoil)


MISTAKES: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        a_sum_that_is_rounded,
        a_sum_that_is_not_written,
        sums_that_are_not_written,
        means_that_are_not_written,
        weights_that_are_not_written,
        weights_of_before,
        a_failure_to_begin,
        a_process_that_is_gone_before_the_sum,
        a_process_that_is_gone_in_a_pass,
        a_failure_before_the_sum,
        a_collective_that_does_not_end,
    )
}

if __name__ == "__main__":
    by_collectives()
    main(Path(sys.argv[1]), sys.argv[2:], MISTAKES)
