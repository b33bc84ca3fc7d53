"""Mistakes with several processes, for `test_shared_mistakes`.

    torchrun --nproc-per-node 2 shared_mistakes.py FOLDER MISTAKE...

Each process writes FOLDER/MISTAKE.RANK: the kind and the words of the error that it met, and how many releases it made.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import blobs, linear, tiny_plan, tiny_training
from step_promises import releases_kept
from torch import nn
from torch.utils.data import Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from discreet.clipping.separation import KnownResults
from discreet.core.errors import DiscreetError
from discreet.core.release import Receipt
from discreet.distributed.lanes import Lanes
from discreet.randomness import TestStream
from discreet.training import EarlyStopping, PublicData, Training
from discreet.training.drawing import Draws
from discreet.training.preflight.engine_check import CHECKED
from discreet.training.run import agreement

RANK = int(os.environ["RANK"])
OTHER = RANK == 1
"""Only the second process makes the mistake."""


def training(folder: Path, **changes: Any) -> Training:
    """A tiny training that processes share."""
    return tiny_training(folder, **({"shard": "replicate", "lanes": 4, "engine": "bookkeeping"} | changes))


def run(one: Training, spoil: Callable[[int], None] = lambda step: None) -> None:
    """The loop of a user, who may spoil something before a step."""
    with one.session() as session:
        while session.ready():
            spoil(session.position)
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(one.criterion, chunk)


def another_plan(folder: Path) -> None:
    run(training(folder, plan=tiny_plan(noise_multiplier=1.6 if OTHER else 1.5)))


def another_order(folder: Path) -> None:
    inputs, targets = blobs()
    run(training(folder, data=(inputs.flip(0), targets.flip(0)) if OTHER else (inputs, targets)))


def fewer_rows(folder: Path) -> None:
    inputs, targets = blobs()
    kept = 23 if OTHER else 24
    run(training(folder, data=(inputs[:kept], targets[:kept])))


def other_weights(folder: Path) -> None:
    run(training(folder, model=linear(seed=RANK)))


def another_criterion(folder: Path) -> None:
    run(training(folder, criterion=nn.MultiMarginLoss() if OTHER else nn.CrossEntropyLoss()))


def another_version(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if OTHER:
            patch.setattr(agreement, "__version__", "0.0.1")
        run(training(folder))


def other_lanes(folder: Path) -> None:
    run(training(folder, lanes=4 + RANK))


def one_more_sampler(folder: Path) -> None:
    """Each process reads its own share of the rows, as with ordinary data-parallel training."""
    data = TensorDataset(*blobs())
    own = DistributedSampler(data, num_replicas=2, rank=RANK, shuffle=False)
    run(training(folder, data=Subset(data, list(own))))


def all_lanes_in_each(folder: Path) -> None:
    """Each process computes the whole batch: every unit would count twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lanes, "chunks", lambda self, drawn, units: [(0, range(drawn))])
        run(training(folder))


def another_stream(folder: Path) -> None:
    run(training(folder, stream=TestStream(7 + RANK)))


def another_learning_rate(folder: Path) -> None:
    """The optimizer of another process's model: weights part with the first step."""
    model = linear()
    run(training(folder, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1 * (1 + RANK))))


def changed_weights(folder: Path) -> None:
    one = training(folder)

    def spoil(step: int) -> None:
        if OTHER and step == 1:
            with torch.no_grad():
                next(one.model.parameters()).add_(1.0)

    run(one, spoil)


def a_chunk_left_out(folder: Path) -> None:
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    if OTHER and session.position == 2:
                        break
                    step.add(one.criterion, chunk)


def a_process_that_stops(folder: Path) -> None:
    one = training(folder)

    def leave(step: int) -> None:
        if OTHER and step == 2:
            raise InterruptedError("it goes home")

    run(one, leave)


def a_process_that_is_gone(folder: Path) -> None:
    one = training(folder)

    def leave(step: int) -> None:
        if OTHER and step == 2:
            folder.with_suffix(".1").write_text(json.dumps(["gone", "", 0]))
            os._exit(0)  # any other code would let torchrun end the process that is to find out

    run(one, leave)


def an_error_of_the_loop(folder: Path) -> None:
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step:
                if OTHER and session.position == 2:
                    raise KeyError("a private row")
                for chunk in step.chunks:
                    step.add(one.criterion, chunk)


def a_sum_that_is_no_number(folder: Path) -> None:
    """A fault of the machine: engines never return one."""
    one = training(folder)
    if OTHER:
        good = one.engine.clipped_sum
        spoilt = lambda *given: {name: part * float("nan") for name, part in good(*given).items()}  # noqa: E731
        one.engine = replace(one.engine, clipped_sum=spoilt)
    run(one)


def another_draw(folder: Path) -> None:
    """A process that is one step behind in what it draws."""
    real = Draws.next

    def behind(self: Draws, receipt: Receipt) -> Any:
        return real(self, replace(receipt, position=receipt.position + 10))

    with pytest.MonkeyPatch.context() as patch:
        if OTHER:
            patch.setattr(Draws, "next", behind)
        run(training(folder))


def a_budget_that_is_spent(folder: Path) -> None:
    run(training(folder, ledger=folder.parent / "ledger.sqlite", dataset_id="d"))


def another_loss(folder: Path) -> None:
    """A process whose step is given another loss than the run has checked."""
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    step.add((lambda output, target: output.sum()) if OTHER else one.criterion, chunk)


def public_rows_in_one(folder: Path) -> None:
    """As if only the first process had to look at them."""
    training(folder, public=None if OTHER else PublicData(test=blobs(9, seed=1))).run()


def evaluations_at_other_steps(folder: Path) -> None:
    training(folder, public=PublicData(test=blobs(9, seed=1))).run(evaluate_every=1 + RANK)


def an_early_end_in_one(folder: Path) -> None:
    early = EarlyStopping("loss", 1, least=100.0)
    training(folder, public=PublicData(test=blobs(9, seed=1))).run(early=None if OTHER else early)


def a_checkpoint_of_the_first(folder: Path) -> None:
    """Each process has to take part in it; some steps were released before."""
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step:
                step.add_all(one.criterion)
            if session.between_blocks and not OTHER:
                one.save(session)


def train_alone(folder: Path) -> None:
    """A run without `shard` in one of several processes."""
    tiny_training(folder, model=nn.Linear(4, 3)).run()


MISTAKES: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        another_plan,
        another_order,
        fewer_rows,
        other_weights,
        another_version,
        another_criterion,
        other_lanes,
        one_more_sampler,
        all_lanes_in_each,
        another_stream,
        another_learning_rate,
        changed_weights,
        a_chunk_left_out,
        a_process_that_stops,
        a_process_that_is_gone,
        an_error_of_the_loop,
        a_sum_that_is_no_number,
        another_draw,
        a_budget_that_is_spent,
        another_loss,
        public_rows_in_one,
        evaluations_at_other_steps,
        an_early_end_in_one,
        a_checkpoint_of_the_first,
        train_alone,
    )
}


def make(mistake: Callable[[Path], None], folder: Path) -> None:
    """Make a mistake and write down what was met."""
    met = ["nothing", ""]
    with releases_kept() as kept:
        try:
            mistake(folder)
        except Exception as error:
            met = [type(error).__name__, str(error)] if isinstance(error, DiscreetError) else [type(error).__name__, ""]
    folder.with_suffix(f".{RANK}").write_text(json.dumps([*met, len(kept)]))


def main(folder: Path, mistakes: list[str], known: Mapping[str, Callable[[Path], None]] = MISTAKES) -> None:
    """Make some mistakes, one after the other."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    with CHECKED.in_(KnownResults(64)):
        for mistake in mistakes:
            make(known[mistake], folder / mistake)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
