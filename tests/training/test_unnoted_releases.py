"""A ledger that fails to note that a block was released: the block is kept, and its charge stands without the note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import tiny_training

from discreet import publish, verify
from discreet.clipping.digests import state_digests
from discreet.core.errors import LedgerError
from discreet.core.release import Receipt
from discreet.ledger import Ledger
from discreet.plan import AdaptivePlan, Metric, PoissonSampling
from discreet.training import Trained
from discreet.training.run.checkpoint_files import load_checkpoint

Note = Callable[[Ledger, Receipt], None]


def fails_at(numbers: set[int], *, after: bool = False) -> tuple[Note, list[int]]:
    """A note that fails at some of its calls, or only seems to (`after`), and the positions that it was called with."""
    real, asked = Ledger.commit, list[int]()

    def commit(ledger: Ledger, receipt: Receipt) -> None:
        asked.append(receipt.position + 1)
        if after:
            real(ledger, receipt)
        if len(asked) in numbers:
            raise LedgerError("the server went away")
        if not after:
            real(ledger, receipt)

    return commit, asked


def saved(folder: Path) -> int:
    found = load_checkpoint(folder / "run" / "checkpoint.json")
    assert found is not None
    return found.position


def releases(trained: Trained) -> list[int]:
    return [entry.position for entry in trained.entries if entry.kind == "release"]


@pytest.mark.parametrize(("first", "kept"), [(1, 3), (2, 6), (3, 7)])
def test_a_run_that_it_ends_has_saved_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, kept: int
) -> None:
    monkeypatch.setattr(Ledger, "commit", fails_at(set(range(first, 99)))[0])
    training = tiny_training(tmp_path, stream=None, engine="bookkeeping")
    with pytest.raises(LedgerError, match="server went away"):
        training.run(progress=False)
    weights = {name: one.clone() for name, one in training.model.state_dict().items()}
    assert saved(tmp_path) == kept
    monkeypatch.undo()
    again = tiny_training(tmp_path, stream=None, engine="bookkeeping", resume=True)
    with again.session() as session:
        assert session.position == kept  # charged, and nothing more
        assert all(torch.equal(one, weights[name]) for name, one in again.model.state_dict().items())
        while session.ready():
            with session.step() as step:
                step.add_all(again.criterion)
        trained = again.result(session)
    assert trained.charged_steps == 7
    publish(trained, tmp_path / "model")
    assert verify(tmp_path / "model").accepted


@pytest.mark.parametrize("after", [False, True])
def test_what_fails_once_is_noted_before_the_next_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Twice, if it was noted and the answer of the database was lost."""
    commit, asked = fails_at({1, 4}, after=after)
    monkeypatch.setattr(Ledger, "commit", commit)
    trained = tiny_training(tmp_path, stream=None, engine="bookkeeping").run(progress=False)
    assert asked == [3, 3, 6, 7, 7]
    assert releases(trained) == (asked if after else [3, 6, 7])
    kinds = [entry.kind for entry in trained.entries if entry.kind in ("reservation", "release")]
    assert kinds[: 3 + after] == ["reservation", *["release"] * (1 + after), "reservation"]
    publish(trained, tmp_path / "model")
    assert verify(tmp_path / "model").accepted


def test_a_loop_of_ones_own_may_save_before_it_hears_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "commit", fails_at(set(range(1, 99)))[0])
    training = tiny_training(tmp_path, stream=None, engine="bookkeeping")
    with training.session() as session:
        for _ in range(3):
            with session.step() as step:
                step.add_all(training.criterion)
        released = state_digests(training.model)
        assert session.between_blocks
        training.save(session)
        for use in (session.ready, lambda: training.result(session)):
            with pytest.raises(LedgerError, match="server went away"):
                use()
        assert session.ledger.charged_steps(session.run) == 3
        assert state_digests(training.model) == released
    assert saved(tmp_path) == 3


def test_a_metric_that_was_paid_for_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: Any = AdaptivePlan.make(
        PoissonSampling(rate=0.5),
        epsilon=60.0,
        delta=1e-5,
        population=24,
        clip_norm=1.0,
        policy=lambda phase, history: history.start if phase < 2 else None,
        noise_multiplier=3.0,
        most_steps=60,
        block=3,
        metrics=[Metric(noise=3.0)],
    )
    whole = tiny_training(tmp_path / "whole", plan=plan).run(progress=False)
    commit, asked = fails_at(set(range(1, 99, 2)))
    monkeypatch.setattr(Ledger, "commit", commit)
    trained = tiny_training(tmp_path / "failing", plan=plan).run(progress=False)
    assert trained.bought == whole.bought != ()
    assert trained.charged_steps == whole.charged_steps
    assert asked[-1] == releases(trained)[-1] == releases(whole)[-1]
