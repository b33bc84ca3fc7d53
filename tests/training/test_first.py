"""Queries that a run answers before its first step: one plan, one run, one total."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from adaptive_runs import adaptive
from first_runs import COMPONENTS, components, first_plan, first_run, training_after
from problems import blobs, linear, tiny_plan, tiny_training

from discreet.core.adjacency import Query
from discreet.core.errors import BudgetExhausted, InputError, PrivacyViolation
from discreet.core.events import Compose, Gaussian
from discreet.core.events.event_json import from_json
from discreet.ledger import Budget, Ledger
from discreet.queries import Count, Sum, release
from discreet.training import RunOptions, answered_first


def test_components_and_steps_are_one_run(tmp_path: Path) -> None:
    plan = first_plan()
    trained = first_run(tmp_path, plan)
    kinds = [entry.kind for entry in trained.entries]
    assert kinds[:5] == ["run", "attempt", "reservation", "release", "attempt"]
    opened, charged = trained.entries[0].content, trained.entries[2]
    assert opened["plan"] == trained.plan.fingerprint()
    assert opened["epsilon"] == plan.guarantee().epsilon
    assert from_json(charged.content) == Compose((*plan.first_steps(1).events,))
    assert trained.charged_steps == plan.charges == 8


def test_its_noise_is_fresh_in_every_run(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        with answered_first(first_plan(), linear(), tmp_path / name) as account:
            found.append(components(account).release_[0])
    assert not (found[0] == found[1]).any()


def test_only_what_the_plan_says_is_answered_and_once(tmp_path: Path) -> None:
    rows, where = blobs()[0].numpy(), tmp_path / "ledger.sqlite"
    plan = first_plan(before=[Gaussian(9.0), Gaussian(9.0, Query.COUNT)])
    with answered_first(plan, linear(), RunOptions(tmp_path / "run", ledger=where)) as account:
        for wrong in ([Count()], [Sum(1.0)], [Sum(1.0), Count(), Count()]):
            with pytest.raises(PrivacyViolation, match="the plan says that Gaussian"):
                release(rows, wrong, account, 8.0 if len(wrong) < 3 else 9.0)
        (run,) = {entry.run for entry in Ledger(where).entries() if entry.run}
        assert Ledger(where).charged_steps(run) == 0
        answers = release(rows, [Sum(1.0), Count()], account, 9.0)
        assert len(answers) == 2
        assert Ledger(where).charged_steps(run) == 2
        with pytest.raises(PrivacyViolation, match="no query comes next"):
            release(rows, [Count()], account, 9.0)


def test_no_training_before_the_answers_and_none_without_its_own_run(tmp_path: Path) -> None:
    plan = first_plan()
    with pytest.raises(PrivacyViolation, match="answered_first"):
        tiny_training(tmp_path, plan=plan).run()
    assert not (tmp_path / "run").exists()
    with answered_first(plan, linear(), tmp_path / "run"):
        pass
    with pytest.raises(PrivacyViolation, match="answered_first"):
        training_after(tmp_path, plan).run()
    with (
        pytest.raises(InputError, match="no queries"),
        answered_first(tiny_plan(), linear(), tmp_path / "none"),
    ):
        pass


def test_the_training_must_be_the_one_that_was_planned(tmp_path: Path) -> None:
    """Noise chosen after the answers were seen would need a filter: the plan is in the ledger before them."""
    plan = first_plan()
    with answered_first(plan, linear(), tmp_path / "run") as account:
        components(account)
    for other in (plan.scaled(0.5), tiny_plan()):
        with pytest.raises(InputError, match="differs from those"):
            training_after(tmp_path, other).run()
    with pytest.raises(InputError, match="noise 'fast', not 'exact'"):
        training_after(tmp_path, plan, noise="exact").run()
    assert training_after(tmp_path, plan).run().charged_steps == 8


def test_a_mistake_before_the_charge_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), answered_first(first_plan(), linear(), tmp_path / "run"):
        raise ZeroDivisionError
    assert not (tmp_path / "run").exists()


def test_an_answer_that_was_lost_stays_charged(tmp_path: Path) -> None:
    """A crash after the charge: the folder stays, and the training may go on, on other features."""

    def crash() -> None:
        with answered_first(first_plan(), linear(), tmp_path / "run") as account:
            components(account)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash()
    assert training_after(tmp_path, first_plan()).run().charged_steps == 8


def test_a_run_may_stop_and_go_on_after_them(tmp_path: Path) -> None:
    plan = first_plan()
    with answered_first(plan, linear(), tmp_path / "run") as account:
        pca = components(account)
    training = training_after(tmp_path, plan, pca)
    with training.session() as session:
        for _ in range(3):
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(training.criterion, chunk)
        training.save(session)
        before = [parameter.detach().clone() for parameter in training.model.parameters()]
    again = training_after(tmp_path, plan, pca)
    with again.session() as session:
        assert session.position == 4
        assert all(map(torch.equal, before, again.model.parameters()))
    assert training_after(tmp_path, plan, pca).run().charged_steps == 8


def test_the_budget_of_a_data_set_pays_for_the_whole(tmp_path: Path) -> None:
    plan, where = first_plan(), tmp_path / "shared.sqlite"
    ledger = Ledger(where)
    ledger.set_budget("patients", Budget(tiny_plan().guarantee().epsilon * 1.01, 1e-5))
    with (
        pytest.raises(BudgetExhausted),
        answered_first(plan, linear(), RunOptions(tmp_path / "run", ledger=where, dataset_id="patients")),
    ):
        pass
    assert not (tmp_path / "run").exists()


def test_the_filter_of_an_adaptive_run_counts_them(tmp_path: Path) -> None:
    plan = adaptive(before=[COMPONENTS], most_steps=9, odometer="renyi")
    with answered_first(plan, linear(), tmp_path / "run") as account:
        pca = components(account)
    training = training_after(tmp_path, plan, pca)
    with training.session() as session:
        assert session.position == 1
        assert session.ledger.amounts(session.run) == plan.filter.cost(COMPONENTS)
        assert session.reading is not None
        assert session.reading.epsilon > 0
    trained = training_after(tmp_path, plan, pca).run()
    assert trained.charged_steps == 9
    with pytest.raises(PrivacyViolation, match="answered_first"):
        tiny_training(tmp_path, plan=plan, run_dir=tmp_path / "other").run()
