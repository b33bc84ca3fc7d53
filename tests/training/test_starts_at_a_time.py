"""Two starts of one run at a time, an index that is lost, and what publishing destroys."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from first_runs import first_plan, first_run
from problems import tiny_plan, tiny_training

from discreet import publish
from discreet.core.disk import share_lock
from discreet.core.errors import InputError
from discreet.ledger import Ledger
from discreet.training import Training
from discreet.training.run import checkpoint, checkpoint_files
from discreet.training.run.checkpoint_files import load_checkpoint
from discreet.training.session import Session


def training(folder: Path, **changes: Any) -> Training:
    return tiny_training(folder, plan=tiny_plan(steps=20), stream=None, **changes)


def steps(made: Training, session: Session, count: int) -> None:
    for _ in range(count):
        with session.step() as step:
            step.add_all(made.criterion)


def parts(made: Training) -> list[str]:
    return sorted(path.name for path in made.folder.path.glob("checkpoint-*"))


PLACES = {"before the index": (checkpoint, "write_index"), "within the index": (checkpoint_files, "write_durably")}


@pytest.mark.parametrize("place", PLACES)
def test_a_second_start_takes_no_part_and_no_draft_from_one_that_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
        steps(first, session, 1)
        owner, name = PLACES[place]
        real = getattr(owner, name)

        def meanwhile(path: Path, *given: Any, **more: Any) -> None:
            if path == first.folder.checkpoint:
                monkeypatch.setattr(owner, name, real)
                (draft := first.folder.path / "checkpoint.json.ab.draft").write_bytes(b"of the first")
                with training(tmp_path, resume=True).session():
                    assert draft.exists()
            real(path, *given, **more)

        monkeypatch.setattr(owner, name, meanwhile)
        first.save(session)
    found = load_checkpoint(first.folder.checkpoint)
    assert found is not None
    assert found.position == 4
    assert parts(first) == [found.parts[0].file]
    with training(tmp_path, resume=True).session() as session:
        assert session.position == 6  # its block was charged
    assert not list(first.folder.path.glob("*.draft"))  # this start had the folder for itself


def test_of_two_starts_that_save_the_last_index_stands_with_its_parts(tmp_path: Path) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
        second = training(tmp_path, resume=True)
        with second.session() as later:
            steps(second, later, 1)
            second.save(later)
            first.save(session)
            found = load_checkpoint(first.folder.checkpoint)
            assert found is not None
            second.save(later)
    found = load_checkpoint(first.folder.checkpoint)
    assert found is not None
    assert found.parts[0].file in parts(first)


@pytest.mark.parametrize("reading", [1, 2, 3])
def test_a_resumption_reads_the_checkpoint_that_took_the_place_of_the_one_it_had_begun_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    """`reading`: before which reading of parts the first start saves: that of the check before data, that of the
    resumption, and that of the tensors."""
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
        steps(first, session, 3)
        opened, real = [], checkpoint_files.Index.open

        def meanwhile(index: checkpoint_files.Index) -> Any:
            opened.append(index.position)
            if len(opened) == reading:
                first.save(session)
            return real(index)

        monkeypatch.setattr(checkpoint_files.Index, "open", meanwhile)
        with training(tmp_path, resume=True).session() as later:
            assert later.position == 6
        assert opened == [3] * reading + [6] * (4 - reading)


def test_a_checkpoint_that_never_stands_still_is_not_said_to_be_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
        real = checkpoint_files.Index.open

        def meanwhile(index: checkpoint_files.Index) -> Any:
            first.save(session)
            return real(index)

        monkeypatch.setattr(checkpoint_files.Index, "open", meanwhile)
        with pytest.raises(InputError, match="another process goes on with the run") as raised:
            load_checkpoint(first.folder.checkpoint)
        assert "delete" not in str(raised.value)


def test_a_start_that_was_superseded_leaves_the_checkpoint_of_the_later_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 1)
        second = training(tmp_path, resume=True)
        with second.session() as later:
            steps(second, later, 6)
            second.save(later)
        steps(first, session, 2)
        before = parts(first)
        with caplog.at_level(logging.WARNING, "discreet"):
            first.save(session)
    assert "the run was started again, and goes on there" in caplog.text
    found = load_checkpoint(first.folder.checkpoint)
    assert found is not None
    assert (found.position, found.attempt) == (9, 1)
    assert parts(first) == before
    with training(tmp_path, resume=True).session() as session:
        assert session.position == 9


def test_a_checkpoint_without_the_number_of_its_start_is_replaced(tmp_path: Path) -> None:
    """Earlier versions noted none."""
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
        facts = json.loads(first.folder.checkpoint.read_text())
        assert facts.pop("attempt") == 0
        del facts["sha256"]
        facts["sha256"] = checkpoint_files._digest(facts)
        first.folder.checkpoint.write_text(json.dumps(facts))
        steps(first, session, 3)
        first.save(session)
    found = load_checkpoint(first.folder.checkpoint)
    assert found is not None
    assert found.position == 6


def test_parts_that_nobody_will_name_go_with_a_start_that_is_alone(tmp_path: Path) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
    (orphan := first.folder.path / "checkpoint-9-ab-0.safetensors").write_bytes(b"")
    with share_lock(first.folder.path) as held:
        assert held
        with training(tmp_path, resume=True).session():
            assert orphan.exists()
    with training(tmp_path, resume=True).session():
        assert not orphan.exists()


def test_a_lost_index_ends_the_resumption_and_takes_no_part_with_it(tmp_path: Path) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
    index, before = first.folder.checkpoint.read_bytes(), parts(first)
    made = training(tmp_path, resume=True)
    first.folder.checkpoint.unlink()
    with (
        pytest.raises(InputError, match=r"checkpoint\.json is missing.*put it back.*delete all.*stays charged"),
        made.session(),
    ):
        pass
    with pytest.raises(InputError, match="is missing"):
        training(tmp_path, resume=True)
    assert parts(first) == before
    first.folder.checkpoint.write_bytes(index)
    with training(tmp_path, resume=True).session() as session:
        assert session.position == 3


def test_a_first_checkpoint_that_was_not_finished_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    def begin() -> None:
        with first.session() as session:
            steps(first, session, 3)
            first.save(session)

    first = training(tmp_path)
    monkeypatch.setattr(checkpoint, "write_index", kill)
    with pytest.raises(Killed):
        begin()
    monkeypatch.undo()
    assert len(parts(first)) == 1
    with caplog.at_level(logging.WARNING, "discreet"), training(tmp_path, resume=True).session() as session:
        assert session.position == 3
    assert "goes on from its first model" in caplog.text
    assert "3 charged steps are lost" in caplog.text
    assert parts(first) == []
    ledger = Ledger(first.folder.ledger, create=False)
    assert ledger.charged_steps(first.folder.run) == 3
    ledger.close()


def test_a_run_that_has_its_checkpoint_warns_of_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = training(tmp_path)
    with first.session() as session:
        steps(first, session, 3)
        first.save(session)
    with caplog.at_level(logging.WARNING, "discreet"), training(tmp_path, resume=True).session():
        pass
    assert "first model" not in caplog.text


def test_publishing_destroys_what_is_there_then(tmp_path: Path) -> None:
    made = tiny_training(tmp_path, stream=None)
    with made.session() as session:
        steps(made, session, 7)
        result = made.result(session)
        made.save(session)
    (made.folder.path / "checkpoint.json.ab.draft").write_bytes(b"half")
    (made.folder.path / "checkpoint-7-ab-1.safetensors").write_bytes(b"left")
    publish(result, tmp_path / "out")
    assert not list(made.folder.path.glob("checkpoint*"))
    assert not made.folder.key.exists()


def test_queries_that_were_answered_are_not_said_to_be_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "discreet"):
        first_run(tmp_path, first_plan())
    assert "first model" not in caplog.text
