"""A charge that stands in the ledger although `reserve` failed: a loop of one's own that goes on counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from problems import tiny_plan, tiny_training

from discreet import publish, verify
from discreet.core.errors import LedgerError
from discreet.ledger import Ledger
from discreet.plan import AdaptivePlan, Metric, PoissonSampling
from discreet.training import Training
from discreet.training.session import Session


def lose_answers(monkeypatch: pytest.MonkeyPatch, calls: set[int], error: type[BaseException] = LedgerError) -> None:
    """These calls of `Ledger.reserve` charge, and fail."""
    real, made = Ledger.reserve, [0]

    def reserve(ledger: Ledger, *given: Any) -> Any:
        receipts = real(ledger, *given)
        made[0] += 1
        if made[0] in calls:
            raise error("the server closed the connection")
        return receipts

    monkeypatch.setattr(Ledger, "reserve", reserve)


def step(training: Training, session: Session) -> bool:
    """Take a step, or fail to charge its block; False at the end of the run."""
    try:
        if not session.ready():
            return False
        with session.step() as one:
            one.add_all(training.criterion)
    except LedgerError:
        pass
    return True


def in_ledger(training: Training, session: Session) -> float:
    rule = training.plan.odometer
    assert rule is not None
    return rule.read(rule.after(rule.start(), session.ledger.spent(session.run))).epsilon


def adaptive(**changes: Any) -> Any:
    settings: dict[str, Any] = {
        "epsilon": 60.0,
        "delta": 1e-5,
        "population": 24,
        "clip_norm": 1.0,
        "policy": lambda phase, history: history.start,
        "noise_multiplier": 2.0,
        "most_steps": 60,
        "block": 3,
    }
    return AdaptivePlan.make(PoissonSampling(rate=0.5), **settings | changes)


ODOMETER: dict[str, Any] = {"odometer": "renyi", "stop_at": 9.0}
PLANS = {
    "fixed": lambda: tiny_plan(steps=60, **ODOMETER),
    "adaptive": lambda: adaptive(**ODOMETER),
    "adaptive, with metrics": lambda: adaptive(**ODOMETER, metrics=[Metric(noise=4.0)]),
}


@pytest.mark.parametrize("plan", PLANS)
def test_the_odometer_reads_what_the_ledger_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    lose_answers(monkeypatch, {1, 3, 4, 6})
    training = tiny_training(tmp_path, plan=PLANS[plan](), stream=None, engine="bookkeeping")
    with training.session() as session:
        while step(training, session):
            assert session.reading is not None
            assert session.reading.epsilon == pytest.approx(in_ledger(training, session), rel=1e-12)
            assert session.position == session.ledger.charged_steps(session.run) - session.left
        assert session.ended is not None
        assert "odometer reads" in session.ended
        assert in_ledger(training, session) <= 9.0
        trained = training.result(session)
    publish(trained, tmp_path / "model")
    found = verify(tmp_path / "model")
    assert [check for check in found.checks if not check.passed] == []


@pytest.mark.parametrize("lost", [{2}, {3}, {1, 2, 3}])
def test_the_position_counts_lost_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: set[int]) -> None:
    lose_answers(monkeypatch, lost)
    training = tiny_training(tmp_path, stream=None, engine="bookkeeping")
    with training.session() as session:
        while step(training, session):
            pass
        assert session.position == session.ledger.charged_steps(session.run) == 7
        assert session.finished
        training.save(session)
    again = tiny_training(tmp_path, stream=None, engine="bookkeeping", resume=True)
    assert again.run(progress=False).charged_steps == 7


def test_an_interrupt_while_the_charge_is_written_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_answers(monkeypatch, {1}, KeyboardInterrupt)
    training = tiny_training(tmp_path, plan=tiny_plan(**ODOMETER), engine="bookkeeping")
    with training.session() as session:
        with pytest.raises(KeyboardInterrupt):
            session.ready()
        assert session.reading is not None
        assert session.reading.epsilon == pytest.approx(in_ledger(training, session), rel=1e-12)
        assert session.reading.epsilon > 0


def test_a_ledger_that_cannot_be_asked_gives_no_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_answers(monkeypatch, {1})
    training = tiny_training(tmp_path, plan=tiny_plan(**ODOMETER), engine="bookkeeping")
    with training.session() as session:
        with pytest.raises(LedgerError):
            session.ready()
        with monkeypatch.context() as gone:

            def fails(*_: object) -> int:
                raise LedgerError("the server is away")

            gone.setattr(Ledger, "charged_steps", fails)
            for use in (lambda: session.reading, session.ready):
                with pytest.raises(LedgerError, match="is away"):
                    use()
        assert session.reading is not None
        assert session.reading.epsilon > 0
