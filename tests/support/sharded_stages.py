"""A run whose weights are shared out, taken in stages by different numbers of processes, for `test_sharded_stages`.

torchrun --nproc-per-node 2 sharded_stages.py FOLDER SHARD STEPS     goes on to so many steps; all: prints a digest
torchrun --nproc-per-node 2 sharded_stages.py FOLDER publish         a run with a secret key, published in FOLDER/model
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from pathlib import Path

import sharded_runs
import torch

from discreet import publish
from discreet.randomness import TestStream
from discreet.training import RunOptions, Training

STEPS, BLOCK = 6, 2


def training(folder: Path, shard: str) -> Training:
    begun = (folder / "run").exists()
    lanes = None if begun else sharded_runs.LANES
    run = RunOptions(folder / "run", resume=begun, lanes=lanes, stream=TestStream(7))
    plan = sharded_runs.plan(steps=STEPS).model_copy(update={"block": BLOCK})
    return sharded_runs.training(folder, {"shard": shard}, plan=plan, run=run, run_dir=run.folder)


def stage(folder: Path, shard: str, steps: int) -> None:
    """Go on to `steps` steps, and leave a checkpoint; at the end of the plan a digest of the weights is printed."""
    made = training(folder, shard)
    with made.session() as session:
        while session.position < steps and session.ready():
            with session.step() as step:
                step.add_all(made.criterion)
        made.save(session)
        if not session.finished:
            return
        trained, found = made.result(session), hashlib.sha256()
    for name, one in sorted(trained.model.state_dict().items()):
        found.update(name.encode() + one.numpy().tobytes())
    if made.team.first:
        sys.stdout.write(found.hexdigest()[:16] + "\n")


def published(folder: Path) -> None:
    trained = sharded_runs.adapted(folder, {"shard": "fully", "lanes": 4, "stream": None}).run()
    publish(trained, folder / "model")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    os.environ.setdefault("DISCREET_TIMEOUT", "60")
    if sys.argv[2] == "publish":
        published(Path(sys.argv[1]))
    else:
        stage(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
