"""Runs in which each unit has a budget of its own: who is left out, what is kept of it, and where."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import FULL, PERIOD, ROWS, budget_plan, sums_on_a_path
from people import SHUFFLED
from problems import blobs, linear, tiny_training

from discreet import publish, verify
from discreet.cli.app import run as discreet
from discreet.core.errors import InputError
from discreet.ledger.units_spent import FILE, PARTS, UnitsSpent
from discreet.plan import IndividualSampling, NoSampling, Plan
from discreet.training import RunOptions, Training


def kept(folder: Path, plan: Plan | None = None, *, resume: bool = False, **changes: Any) -> Training:
    """A training that keeps what units have spent."""
    options = RunOptions(folder / "run", resume=resume, keep_spent=True)
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = changes.pop("data", blobs(ROWS))
    return Training(plan or budget_plan(), model, torch.nn.CrossEntropyLoss(), optimizer, data, run=options, **changes)


def test_where_no_budget_ends_it_is_training_on_everyone(tmp_path: Path) -> None:
    """The same noise, and the same weights to the last bit."""
    models = []
    for sampling in (NoSampling(), IndividualSampling(period=4, full=4)):
        models.append(linear())
        plan = budget_plan(sampling=sampling, steps=4)
        tiny_training(tmp_path / sampling.kind, plan=plan, data=blobs(ROWS), model=models[-1], engine="exact").run(
            progress=False
        )
    assert torch.equal(models[0].weight, models[1].weight)


def test_a_sum_is_of_those_who_take_part_and_the_divisor_is_public(tmp_path: Path) -> None:
    """With gradients longer than the clip norm all units spend a whole step each time, and none is left after three."""
    found = sums_on_a_path(tmp_path, blobs(ROWS), plan=budget_plan(clip_norm=1e-3))
    assert [bool(one.any()) for one in found] == [True] * FULL + [False] * (PERIOD - FULL)
    assert budget_plan().draw_of(budget_plan().first_event).divisor == ROWS


def test_what_a_step_costs_is_the_square_of_the_clipped_gradient(tmp_path: Path) -> None:
    """Beside autograd, one row at a time."""
    inputs, targets = blobs(ROWS)
    model = linear()
    wanted = []
    for row, target in zip(inputs, targets, strict=True):
        loss = torch.nn.functional.cross_entropy(model(row[None]), target[None])
        gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])
        wanted.append(min(1.0, float(gradient.norm()) / 3.0) ** 2)
    assert 0.1 < min(wanted) < max(wanted) == 1.0
    with kept(tmp_path, budget_plan(clip_norm=3.0)).session() as session, session.step() as step:
        step.add_all(torch.nn.CrossEntropyLoss())
    np.testing.assert_allclose(UnitsSpent.load(tmp_path / "run" / FILE).spent / PARTS, wanted, rtol=1e-5)


def test_a_unit_that_fails_adds_nothing_and_spends_nothing(tmp_path: Path) -> None:
    inputs, targets = blobs(ROWS)
    inputs[4] = 1e38  # the loss overflows
    kept(tmp_path, data=(inputs, targets)).run(progress=False)
    spent = UnitsSpent.load(tmp_path / "run" / FILE).spent
    assert spent[4] == 0
    assert np.delete(spent, 4).all()


def test_a_step_that_is_broken_off_spends_nothing(tmp_path: Path) -> None:
    with kept(tmp_path).session() as session:
        with session.step() as step:
            step.add_all(torch.nn.CrossEntropyLoss())
        before = UnitsSpent.load(tmp_path / "run" / FILE).spent

        def broken() -> None:
            with session.step() as step:
                for number, chunk in enumerate(step.chunks):
                    step.add(torch.nn.CrossEntropyLoss(), chunk)
                    if number == 5:
                        raise KeyError("a bug of the user")

        with pytest.raises(KeyError):
            broken()
        with session.step() as step:
            step.add_all(torch.nn.CrossEntropyLoss())
    after = UnitsSpent.load(tmp_path / "run" / FILE).spent
    assert ((after - before > 0) & (after - before <= PARTS)).all()


def test_people_have_budgets_too(tmp_path: Path) -> None:
    plan = budget_plan(population=4, unit="user", rows_per_unit=3)
    kept(tmp_path, plan, data=blobs(), units=SHUFFLED).run(progress=False)
    assert len(UnitsSpent.load(tmp_path / "run" / FILE).spent) == 4


def test_what_would_not_be_proved_is_refused(tmp_path: Path) -> None:
    for engine in ("bookkeeping", "vmap", "reference"):
        with pytest.raises(InputError, match="use engine='exact'"):
            kept(tmp_path, engine=engine)
    with pytest.raises(InputError, match="use individual sampling"):
        kept(tmp_path, budget_plan(sampling=NoSampling()))
    for wrong in ({"steps": 15}, {"noise_multiplier": [(4.0, 5), (5.0, 5)]}):
        with pytest.raises(InputError, match="period"):
            budget_plan(**wrong)
    assert not (tmp_path / "run").exists()


TWO_PERIODS = IndividualSampling(period=5, full=2)


def test_a_period_that_was_interrupted_is_over_and_no_unit_gets_any_of_it_back(tmp_path: Path) -> None:
    plan = budget_plan(sampling=TWO_PERIODS).model_copy(update={"block": 5})
    training = kept(tmp_path, plan)

    def interrupted() -> None:
        with training.session() as session:
            for _ in range(3):
                with session.step() as step:
                    step.add_all(training.criterion)
            raise KeyError("the machine is switched off")

    with pytest.raises(KeyError):
        interrupted()
    first = UnitsSpent.load(tmp_path / "run" / FILE)
    assert first.allowed == 2 * PARTS

    again = kept(tmp_path, plan, resume=True)
    trained = again.run(progress=False)
    last = UnitsSpent.load(tmp_path / "run" / FILE)
    assert trained.charged_steps == 10
    assert last.allowed == 4 * PARTS
    assert (last.spent > first.spent).all()
    assert (last.spent - first.spent <= 2 * PARTS).all()
    assert (last.shares <= 1).all()


def test_resuming_on_other_data_is_refused(tmp_path: Path) -> None:
    UnitsSpent(np.zeros(3, dtype=np.int64), PARTS).save(tmp_path / FILE)
    (tmp_path / "run").mkdir()
    os.rename(tmp_path / FILE, tmp_path / "run" / FILE)
    with pytest.raises(InputError, match="other units than the data has"):
        kept(tmp_path)


def test_the_file_is_for_its_owner_alone_and_nothing_of_it_is_published(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        trained = kept(tmp_path, public=None).run(progress=False)
    finally:
        os.umask(umask)
    path = tmp_path / "run" / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {one.name for one in path.parent.iterdir() if "individual" in one.name} == {FILE}
    publish(trained, tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    found = UnitsSpent.load(path)
    published = b"".join(one.read_bytes() for one in (tmp_path / "out").iterdir())
    assert FILE.encode() not in published
    for spent, used in zip(found.spent, found.shares, strict=True):
        assert spent.tobytes() not in published
        assert str(int(spent)).encode() not in published
        assert repr(float(used)).encode() not in published or used in (0.0, 1.0)


def test_by_default_nothing_is_kept(tmp_path: Path) -> None:
    tiny_training(tmp_path, plan=budget_plan(), data=blobs(ROWS)).run(progress=False)
    assert not list((tmp_path / "run").glob("indiv*"))


def test_the_holder_of_the_data_can_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    spent = np.array([0, PARTS // 10, 2 * PARTS, 3 * PARTS, 3 * PARTS], dtype=np.int64)
    UnitsSpent(spent, 3 * PARTS).save(tmp_path / "run" / FILE)
    assert discreet(["ledger", "individual", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert "private" in said.err
    lines = said.out.splitlines()
    assert lines[0] == "5 units, each with a budget of 3 steps at full length so far"
    assert [int(line.split("used")[1].split()[0]) for line in lines[1:]] == [2, 0, 0, 0, 0, 0, 1, 0, 0, 2]
    assert discreet(["ledger", "individual", str(tmp_path / "run"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {"private": True, "full": 3.0, "used": [0.0, pytest.approx(1 / 30), pytest.approx(2 / 3), 1.0, 1.0]}


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 no archive"])
def test_without_such_a_file_it_says_what_to_do(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    assert discreet(["ledger", "individual", str(tmp_path)]) == 2
    assert "keep_spent" in capsys.readouterr().err
