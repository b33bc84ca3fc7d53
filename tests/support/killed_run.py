"""A run that processes share, in which one of them is killed; for `test_shared_kills` and `benchmarks/shared_kills.py`.

    torchrun --nproc-per-node 3 killed_run.py FOLDER SHARD POINT STEP RANK    killed there, and resumed if it was begun
    torchrun --nproc-per-node 2 killed_run.py FOLDER SHARD                    resumed, and taken to its end

SHARD is "replicate" or "fully". It publishes to FOLDER/published. Every
process appends to FOLDER/noise.RANK what noise it drew, for which numbers.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from problems import tiny_plan, tiny_training
from shared_runs import deep

from discreet import publish
from discreet.core.release import Receipt
from discreet.distributed import ranks, whole_sums
from discreet.ledger import Ledger
from discreet.mechanism import gaussian
from discreet.training.drawing import Draws
from discreet.training.run import checkpoint, checkpoint_files

RANK = int(os.environ.get("RANK", "0"))
STEPS, LANES = 7, 12
POINTS = ("draw", "add", "send", "noise", "gather", "charge", "charged", "commit", "part", "forced", "index", "removed")
"""Places at which a process may die: the first process alone keeps the ledger, and the index of checkpoints. With
shards, "gather" is within a pass over the model. Of a checkpoint: before its part and after it, before the index and
after the parts that it does not name are removed."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killing(owner: Any, name: str, when: Callable[..., bool], *, after: bool = False) -> None:
    """Let a function kill its process before (or `after`) the call for which `when` holds."""
    real = getattr(owner, name)

    def called(*given: Any, **named: Any) -> Any:
        now = when(*given)
        if now and not after:
            die()
        found = real(*given, **named)
        if now:
            die()
        return found

    setattr(owner, name, called)


def arm(point: str, step: int) -> None:
    """Kill this process at `point` of `step`."""
    at = [0]
    real = Draws.next

    def counted(self: Draws, receipt: Receipt) -> Any:
        at[0] = receipt.position
        if point == "draw" and receipt.position == step:
            die()
        return real(self, receipt)

    Draws.next = counted  # type: ignore[method-assign]
    here: Callable[..., bool] = lambda *_: at[0] == step  # noqa: E731
    block: Callable[..., bool] = lambda *_: at[0] >= step - 1  # noqa: E731
    places: dict[str, tuple[Any, str, Callable[..., bool], bool]] = {
        "add": (whole_sums.SumsOnGrid, "_multiples", here, False),
        "send": (ranks.Ranks, "added_share", here, False),
        "noise": (gaussian, "draw_noise", here, False),
        "gather": (ranks.Ranks, "gathered", here, False),
        "charge": (Ledger, "reserve", block, False),
        "charged": (Ledger, "reserve", block, True),
        "commit": (Ledger, "commit", block, False),
        "part": (checkpoint, "write_part", block, False),
        "forced": (checkpoint, "write_part", block, True),
        "index": (checkpoint_files, "write_durably", lambda path, *_, **__: block() and path.suffix == ".json", False),
        "removed": (checkpoint_files, "_remove", block, True),
    }
    if point in places:
        owner, name, when, after = places[point]
        killing(owner, name, when, after=after)


def note_noise(folder: Path) -> None:
    """Append what noise is drawn."""
    real = gaussian.draw_noise

    def noted(receipt: Receipt, *given: Any) -> Any:
        found = real(receipt, *given)
        if isinstance(given[-1], tuple):  # else it is drawn for the checks before a run
            fact = [receipt.attempt, receipt.position, given[-1], found[:4].tolist()]
            with (folder / f"noise.{RANK}").open("a") as file:
                file.write(json.dumps(fact) + "\n")
        return found

    gaussian.draw_noise = noted  # type: ignore[assignment]


def main(folder: Path, shard: str, killed: list[str]) -> None:
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    note_noise(folder)
    if killed and int(killed[2]) == RANK:
        arm(killed[0], int(killed[1]))
    resume = (folder / "run" / "run.json").exists()
    how = {"shard": shard, "lanes": None if resume else LANES, "resume": resume, "model": deep()}
    training = tiny_training(folder, stream=None, engine="bookkeeping", plan=tiny_plan(steps=STEPS, block=2), **how)
    publish(training.run(), folder / "published")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
