"""Policies that take any turn: what is spent never exceeds the budget, and what cannot be is refused beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from adaptive_runs import adaptive
from hypothesis import HealthCheck, event, given, settings
from problems import Recorded, tiny_training

from discreet.accounting.adaptive.filters import as_dict
from discreet.core.errors import InputError
from discreet.core.events.event_json import to_json
from discreet.ledger import Ledger
from discreet.plan import AdaptivePlan, Controls, Counts, History, NoSampling, PoissonSampling
from discreet.plan.adaptive.policies import as_policy
from discreet.training.control.controller import AdaptiveControl, Progress
from discreet.verification.recompute import filters as independent

KINDS: list[tuple[str, Any]] = [
    ("rdp-curve", PoissonSampling(rate=0.25)),
    ("rdp-order", PoissonSampling(rate=0.25)),
    ("zcdp", NoSampling()),
    ("gdp", NoSampling()),
]

IMPOSSIBLE: dict[str, Callable[[], Any]] = {
    "nan": lambda: math.nan,
    "a number": lambda: -1.0,
    "text": lambda: "more",
    "a pair": lambda: (1.0, 12.0),
    "noise nan": lambda: Controls(math.nan, 12.0),
    "noise negative": lambda: Controls(-2.0, 12.0),
    "noise zero": lambda: Controls(0.0, 12.0),
    "noise infinite": lambda: Controls(math.inf, 12.0),
    "noise true": lambda: Controls(True, 12.0),
    "batch nan": lambda: Controls(2.0, math.nan),
    "batch negative": lambda: Controls(2.0, -12.0),
    "batch beyond the population": lambda: Controls(2.0, 24.000001),
    "batch next to nothing": lambda: Controls(2.0, 1e-30),
    "noise next to nothing": lambda: Controls(1e-200, 12.0),
}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    opened = Ledger(tmp_path_factory.mktemp("policies") / "ledger.sqlite")
    yield opened
    opened.close()


@cache
def base(which: int, epsilon: float) -> AdaptivePlan:
    kind, sampling = KINDS[which]
    return adaptive(
        sampling=sampling, epsilon=epsilon, population=100, filter_kind=kind, noise_multiplier=20.0, most_steps=60
    )


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    which=st.integers(0, 3),
    decisions=st.lists(
        st.tuples(st.floats(0.3, 3.0).map(lambda x: x * x * x), st.floats(0.02, 1.0)), min_size=1, max_size=5
    ),
    epsilon=st.sampled_from([0.5, 3.0, 20.0]),
    block=st.integers(2, 9),
    count=st.sampled_from([None, 3.0, 40.0]),
    broken=st.sampled_from([None, None, *IMPOSSIBLE]),
)
def test_no_policy_overspends_and_ledger_and_filter_agree_to_the_last_bit(
    ledger: Ledger,
    which: int,
    decisions: list[tuple[float, float]],
    epsilon: float,
    block: int,
    count: float | None,
    broken: str | None,
) -> None:
    """The controller alone, on a real ledger: 200 policies over all four filters; some end with what cannot be."""

    def policy(phase: int, history: History) -> Any:
        if phase >= 2 * len(decisions):
            return None if broken is None else IMPOSSIBLE[broken]()
        noise, rate = decisions[phase % len(decisions)]
        return Controls(noise, 100 * rate if which < 2 else 100.0)

    counts = None if count is None else Counts(noise=count)
    changes = {"policy": as_policy(policy), "block": block, "counts": counts, "every": 1.0}
    plan = base(which, epsilon).model_copy(update=changes)
    run = ledger.open_run(plan.fingerprint(), plan.guarantee(), "", plan.filter)
    attempt = ledger.start_attempt(run, plan.fingerprint())
    control = AdaptiveControl(plan, Progress([]), spent=lambda: ledger.amounts(run), metrics=dict, buy=lambda *_: 1.0)
    position, refused = 0, False
    try:
        while receipts := control.reserve(lambda admission: ledger.reserve(run, attempt, admission), position):
            position = receipts[-1].position + 1
    except InputError:
        refused = True
    spent, amounts = ledger.spent(run), ledger.amounts(run)
    assert amounts == plan.filter.cost(spent)
    assert all(amount <= limit for amount, limit in zip(amounts, plan.filter.limits, strict=True))
    assert ledger.charged_steps(run) <= 60
    assert plan.guarantee().epsilon <= epsilon
    if position and block in (4, 8):  # the independent accountant integrates, which takes long
        assert independent.excess(as_dict(plan.filter), to_json(spent)) <= 1 + 4e-4
    assert refused == (control.progress.ended is None)
    assert not refused or broken is not None
    ended = control.progress.ended or "refused: the policy returned what cannot be"
    event(f"{'something' if position else 'nothing'} spent; {ended.split(':')[0][:24]}")


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_is_an_error_before_data_is_read(tmp_path: Path, name: str, phase: int) -> None:
    data = Recorded()

    def policy(number: int, history: History) -> Any:
        if number < phase:
            return history.controls
        data.reads.clear()
        return IMPOSSIBLE[name]()

    training = tiny_training(tmp_path, plan=adaptive(policy), data=data)
    data.on_read = lambda _: None
    with pytest.raises(InputError):
        training.run()
    assert data.reads == []
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    assert sum(entry.steps for entry in ledger.entries() if entry.kind == "reservation") == 4 * phase
    ledger.close()
