"""Rows that are held out: never trained on, and on a side that depends on their own name only."""

from __future__ import annotations

from pathlib import Path

import pytest
from problems import Recorded, blobs, tiny_plan, tiny_training
from sessions import LOSS

from discreet.core.errors import InputError
from discreet.plan import (
    Holdout,
    Metric,
)


def test_held_out_rows_are_never_trained_on_and_only_they_are_measured(tmp_path: Path) -> None:
    data = Recorded(60)
    plan = tiny_plan(population=60, holdout=0.3, metrics=[Metric(noise=1e-3, rows="holdout")])
    names = [f"patient {i}" for i in range(60)]
    out = {i for i in range(60) if Holdout(share=0.3).holds_out(names[i])}
    assert 8 < len(out) < 30
    training = tiny_training(tmp_path, plan=plan, data=data, ids=names)
    data.on_read = lambda _index: None
    with training.session() as session:
        for number in range(7):
            if number == 6:
                assert not out & set(data.reads)
                assert len(set(data.reads)) > 30
                data.reads.clear()
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
        assert out <= set(data.reads)  # the last step, and then what is held out
        (bought,) = training.result(session).bought
    right = (training.model(data.inputs).argmax(1) == data.targets).double()
    held = right[sorted(out)]
    assert bought.value == pytest.approx(0.5 + float((held - 0.5).sum()) / (0.3 * 60), abs=1e-3)


def test_the_side_of_a_row_depends_on_its_own_name_only() -> None:
    holdout = Holdout(share=0.1)
    names: list[int | str] = [*range(4000), *(f"row {i}" for i in range(4000))]
    sides = {name: holdout.holds_out(name) for name in names}
    # 8,000 rows at 1/10: 800 with standard deviation 27; seven of them are allowed
    assert abs(sum(sides.values()) - 800) < 190
    assert [sides[i] for i in range(100)] != [holdout.holds_out(str(i)) for i in range(100)]
    other = Holdout(share=0.1, salt="another")
    assert {name for name in names if other.holds_out(name)} != {name for name in names if sides[name]}
    wider = Holdout(share=0.3)
    assert all(wider.holds_out(name) for name in names if sides[name])


@pytest.mark.parametrize("gone", [0, 11, 23])
def test_removing_a_row_moves_no_other(tmp_path: Path, gone: int) -> None:
    plan = tiny_plan(holdout=0.3, metrics=[Metric(noise=5.0, rows="holdout")])
    sides = []
    for rows in (list(range(24)), [i for i in range(24) if i != gone]):
        inputs, targets = blobs()
        training = tiny_training(tmp_path / str(len(rows)), plan=plan, data=(inputs[rows], targets[rows]), ids=rows)
        parts = training._checked.parts
        assert parts.held_out is not None
        held, trained = ({tuple(x.tolist()) for x, _ in part.dataset} for part in (parts.held_out, parts.training))
        sides.append((held, trained))
    lost = tuple(blobs()[0][gone].tolist())
    assert sides[1] == tuple(side - {lost} for side in sides[0])


def test_names_that_nothing_asks_for_are_refused(tmp_path: Path) -> None:
    """They were ignored without a word: nothing was held out, or by the users."""
    with pytest.raises(InputError, match=r"ids was given, but the plan holds no rows out; .* holdout=0.2, say"):
        tiny_training(tmp_path, ids=range(24))
    metrics = [Metric(noise=5.0, rows="holdout")]
    plan = tiny_plan(population=8, batch=4, unit="user", rows_per_unit=3, holdout=0.4, metrics=metrics)
    with pytest.raises(
        InputError, match="ids was given beside units, but which rows are held out is decided by the user"
    ):
        tiny_training(tmp_path, plan=plan, units=[i // 3 for i in range(24)], ids=range(24))


def test_a_user_is_on_one_side_with_all_rows(tmp_path: Path) -> None:
    owners = [f"user {i // 3}" for i in range(24)]
    plan = tiny_plan(
        population=8, batch=4, unit="user", rows_per_unit=3, holdout=0.4, metrics=[Metric(noise=5.0, rows="holdout")]
    )
    training = tiny_training(tmp_path, plan=plan, units=owners)
    parts = training._checked.parts
    assert parts.held_out is not None
    held = sum(plan.holdout.holds_out(name) for name in set(owners))  # type: ignore[union-attr]
    assert (len(parts.held_out), len(parts.training)) == (held, 8 - held)
    assert (parts.held_out.rows, parts.training.rows) == (3 * held, 24 - 3 * held)
    trained = training.run()
    assert len(trained.bought) == 1


def test_rows_without_names_are_refused_where_their_number_is_private(tmp_path: Path) -> None:
    metrics = [Metric(noise=5.0, rows="holdout")]
    with pytest.raises(InputError, match="ids"):
        tiny_training(tmp_path, plan=tiny_plan(holdout=0.3, metrics=metrics))
    training = tiny_training(tmp_path, plan=tiny_plan(holdout=0.3, metrics=metrics, adjacency="zero_out"))
    assert training._checked.parts.held_out is not None
