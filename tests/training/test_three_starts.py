"""Two and three starts of one run at a time: none takes from another what it goes on with."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from problems import tiny_plan, tiny_training

from discreet import publish, verify
from discreet.core.errors import LedgerError
from discreet.training import Training
from discreet.training.run import opening
from discreet.training.run.checkpoint_files import load_checkpoint
from discreet.training.session import Session


def training(folder: Path, **changes: Any) -> Training:
    return tiny_training(folder, plan=tiny_plan(steps=20), stream=None, **changes)


def steps(made: Training, session: Session, count: int) -> None:
    for _ in range(count):
        with session.step() as step:
            step.add_all(made.criterion)


def test_a_start_that_goes_on_when_the_first_has_ended_keeps_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third start, between its look at the checkpoint and its tidying, would take itself for alone."""
    first = training(tmp_path)
    with ExitStack() as stack:
        with first.session() as session:
            steps(first, session, 3)
            first.save(session)
            second = training(tmp_path, resume=True)
            later = stack.enter_context(second.session())
        steps(second, later, 3)
        saves_while_another_tidies(second, later, monkeypatch)
        with training(tmp_path, resume=True).session() as last:
            assert last.position == 6
        assert_whole(first, 6)


def test_a_start_that_begins_while_another_tidies_keeps_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
    third, load = training(tmp_path, resume=True), opening.load_checkpoint
    with ExitStack() as stack:

        def meanwhile(path: Path) -> Any:
            monkeypatch.setattr(opening, "load_checkpoint", load)
            found = load(path)
            second = training(tmp_path, resume=True)
            later = stack.enter_context(second.session())
            steps(second, later, 3)
            second.save(later)
            return found

        monkeypatch.setattr(opening, "load_checkpoint", meanwhile)
        with third.session() as last:
            assert last.position == 6
        assert_whole(first, 6)


def test_a_superseded_start_publishes_nothing_and_leaves_the_key(tmp_path: Path) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        second = training(tmp_path, resume=True)
        with second.session() as later:
            steps(second, later, 3)
            second.save(later)
            with pytest.raises(LedgerError, match="was started again, and goes on there; this start has no") as raised:
                publish(first.result(session), tmp_path / "out")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()
    assert first.folder.key.exists()
    last = training(tmp_path, resume=True)
    with last.session() as session:
        assert session.position == 6
        publish(last.result(session), tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    assert not first.folder.key.exists()


def test_a_result_of_before_a_later_start_is_not_published_and_leaves_the_key(tmp_path: Path) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
        result = first.result(session)
        second = training(tmp_path, resume=True)
        with second.session() as later:
            with pytest.raises(LedgerError, match="was started again"):
                publish(result, tmp_path / "out")
            assert first.folder.key.exists()
            steps(second, later, 3)
            publish(second.result(later), tmp_path / "out")
    assert verify(tmp_path / "out").accepted


def saves_while_another_tidies(made: Training, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    load = opening.load_checkpoint

    def meanwhile(path: Path) -> Any:
        found = load(path)
        made.save(session)
        return found

    monkeypatch.setattr(opening, "load_checkpoint", meanwhile)


def assert_whole(made: Training, position: int) -> None:
    found = load_checkpoint(made.folder.checkpoint)
    assert found is not None
    assert found.position == position
    assert [path.name for path in made.folder.path.glob("checkpoint-*")] == [found.parts[0].file]
