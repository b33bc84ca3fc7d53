"""Mistakes and faults in runs whose weights are shared out, for `test_sharded_mistakes`.

    torchrun --nproc-per-node 2 sharded_mistakes.py FOLDER MISTAKE...

As in `shared_mistakes`, each process writes FOLDER/MISTAKE.RANK: what it met, and how many releases it made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sharded_models
import sharded_runs
import torch
import torch.distributed as dist
from sharded_models import Breaking, gpt
from sharded_runs import texts
from shared_mistakes import OTHER, RANK, main, run
from torch import nn

from discreet.distributed.lanes import Lanes
from discreet.distributed.weight_shards import WeightShards
from discreet.training import Training
from discreet.training.run import checkpoint
from discreet.training.run.checkpoint_files import load_checkpoint
from discreet.training.run.checkpoint_parts import Part


def training(folder: Path, **changes: Any) -> Training:
    """A tiny training whose weights are shared out."""
    return sharded_runs.training(folder, {"shard": "fully", "lanes": 4}, **changes)


def another_learning_rate(folder: Path) -> None:
    run(training(folder, optimizer=lambda held: torch.optim.SGD(held, lr=0.1 * (1 + RANK))))


def another_setting_of_the_loss(folder: Path) -> None:
    run(training(folder, criterion=nn.CrossEntropyLoss(label_smoothing=0.1 * RANK)))


def other_weights(folder: Path) -> None:
    model = gpt()
    if OTHER:
        with torch.no_grad():
            model.head.bias.add_(1.0)
    run(training(folder, model=model))


def another_order(folder: Path) -> None:
    words, targets = texts()
    run(training(folder, data=(words.flip(0), targets.flip(0)) if OTHER else (words, targets)))


def another_order_of_weights(folder: Path) -> None:
    """As when a module registers them from a set: parts of weights of one shape would be mixed."""
    model = gpt()
    held = model.head._parameters
    for name in sorted(held, reverse=bool(OTHER)):
        held[name] = held.pop(name)
    run(training(folder, model=model))


def all_lanes_in_each(folder: Path) -> None:
    """Each process computes the whole batch: every unit would count twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lanes, "chunks", lambda self, drawn, units: [(0, range(drawn))])
        run(training(folder))


def a_chunk_left_out(folder: Path) -> None:
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    if OTHER and session.position == 2:
                        break
                    step.add(one.criterion, chunk)


def an_error_of_the_loop(folder: Path) -> None:
    """In the middle of a step, between two chunks."""
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step:
                for number, chunk in enumerate(step.chunks):
                    if OTHER and session.position == 2 and number == 1:
                        raise KeyError("a private row")
                    step.add(one.criterion, chunk)


def changed_weights(folder: Path) -> None:
    """Something else than the release changes the weights that a process keeps."""
    one = training(folder)

    def spoil(step: int) -> None:
        if OTHER and step == 1:
            lockstep = one.team.lockstep
            assert lockstep is not None
            lockstep.shards.pieces["head.weight"].data.add_(1.0)

    run(one, spoil)


def memory_that_ends_in_a_pass(folder: Path) -> None:
    """Layers are half gathered then, and the others wait for the rest."""
    one, real = training(folder), WeightShards.gathered
    before: list[int] = []

    def gathered(self: WeightShards, unit: Any) -> Any:
        before.append(1)
        if OTHER and len(before) == 40:
            raise MemoryError
        return real(self, unit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WeightShards, "gathered", gathered)
        run(one)


def a_process_that_is_gone_in_a_pass(folder: Path) -> None:
    one, real = training(folder), WeightShards.gathered
    before: list[int] = []

    def gathered(self: WeightShards, unit: Any) -> Any:
        before.append(1)
        if OTHER and len(before) == 75:
            folder.with_suffix(".1").write_text(json.dumps(["gone", "", 0]))
            os._exit(0)
        return real(self, unit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WeightShards, "gathered", gathered)
        run(one)


def a_sum_that_is_no_number(folder: Path) -> None:
    """A fault of the machine: engines never return one."""
    one = training(folder)
    with one.session() as session:
        good = session._parts.engine.clipped_sum
        spoilt = lambda *given: {name: part * float("nan") for name, part in good(*given).items()}  # noqa: E731
        if OTHER:
            session._parts = replace(session._parts, engine=replace(session._parts.engine, clipped_sum=spoilt))
        while session.ready():
            with session.step() as step:
                step.add_all(one.criterion)


def a_model_that_fails_in_one_process(folder: Path) -> None:
    """It fails in the middle of the layers, and nobody waits or hears of it."""
    model = gpt()
    model.blocks[1].between = nn.Sequential(model.blocks[1].between, Breaking())
    one = training(folder, model=model)
    with one.session() as session:
        while session.ready():  # tries a random unit, which may not fail
            with session.step() as step:
                Breaking.now = OTHER
                step.add_all(one.criterion)
                Breaking.now = False
        one.result(session)
    assert not OTHER or sharded_models.Failed.count > 0


def a_backward_pass_of_the_loop(folder: Path) -> None:
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    if OTHER:
                        one.criterion(one.model(chunk[0]), chunk[1]).backward()
                    step.add(one.criterion, chunk)


def a_step_after_the_result(folder: Path) -> None:
    one = training(folder)
    with one.session() as session:
        session.ready()
        with session.step() as step:
            step.add_all(one.criterion)
        one.result(session)
        with session.step() as step:
            step.add_all(one.criterion)


def go_on_with(folder: Path, change: Callable[[Path], object]) -> None:
    """Take two steps, and go on with their checkpoint after the first process has changed the part of the second."""
    one = training(folder, plan=sharded_runs.plan().model_copy(update={"block": 2}))
    with one.session() as session:
        session.ready()
        for _ in range(2):
            with session.step() as step:
                step.add_all(one.criterion)
        one.save(session)
    (part,) = one.folder.path.glob("checkpoint-*-1.safetensors")
    dist.barrier()
    if not OTHER:
        change(part)
    run(training(folder, plan=one.plan, resume=True, lanes=None))


def a_part_that_is_gone(folder: Path) -> None:
    go_on_with(folder, Path.unlink)


def a_part_that_was_changed(folder: Path) -> None:
    def change(part: Path) -> None:
        content = bytearray(part.read_bytes())
        content[-1] ^= 1
        part.write_bytes(content)

    go_on_with(folder, change)


def a_part_that_cannot_be_written(folder: Path) -> None:
    """The disk of one process is full when the second checkpoint is written; the first one stays."""
    one, real = training(folder, plan=sharded_runs.plan().model_copy(update={"block": 2})), checkpoint.write_part

    def full(path: Path, tensors: Any) -> Part:
        if OTHER and path.name.startswith("checkpoint-4"):
            raise OSError("no space left")
        return real(path, tensors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "write_part", full)
        try:
            one.run()
        finally:
            kept = load_checkpoint(one.folder.checkpoint)
            assert kept is not None
            assert kept.position == 2


def a_run_folder_that_one_process_does_not_see(folder: Path) -> None:
    run(training(folder / str(RANK)))


MISTAKES: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        another_learning_rate,
        another_setting_of_the_loss,
        other_weights,
        another_order,
        another_order_of_weights,
        all_lanes_in_each,
        a_chunk_left_out,
        an_error_of_the_loop,
        changed_weights,
        memory_that_ends_in_a_pass,
        a_process_that_is_gone_in_a_pass,
        a_sum_that_is_no_number,
        a_model_that_fails_in_one_process,
        a_backward_pass_of_the_loop,
        a_step_after_the_result,
        a_part_that_is_gone,
        a_part_that_was_changed,
        a_part_that_cannot_be_written,
        a_run_folder_that_one_process_does_not_see,
    )
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:], MISTAKES)
