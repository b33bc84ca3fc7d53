"""A run folder that was moved goes on with the ledger in it; a copy never has charges of its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from problems import tiny_training

from discreet import verify
from discreet.core.errors import LedgerError
from discreet.ledger import Ledger
from discreet.publication import publish
from discreet.training import Training


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A run with a checkpoint after three of seven steps."""
    training = of(tmp_path / "first")
    with training.session() as session:
        for _ in range(3):
            with session.step() as step:
                step.add_all(training.criterion)
        training.save(session)
    return tmp_path / "first"


def of(folder: Path, **options: Any) -> Training:
    return tiny_training(folder.parent, stream=None, run_dir=folder, **options)


def charged(folder: Path) -> int:
    ledger = Ledger(folder / "ledger.sqlite", create=False)
    try:
        return ledger.charged_steps(json.loads((folder / "run.json").read_text())["run"])
    finally:
        ledger.close()


@pytest.mark.parametrize("again", [False, True], ids=["", "a new run at its place"])
def test_a_moved_folder_goes_on(begun: Path, again: bool) -> None:
    moved = begun.rename(begun.with_name("second"))
    if again:
        of(begun).run()
    trained = of(moved, resume=True).run()
    assert charged(moved) == trained.charged_steps == 7
    publish(trained, begun.with_name("out"))
    assert verify(begun.with_name("out")).accepted
    assert not (moved / "key").exists()


def test_so_does_one_that_moves_twice(begun: Path) -> None:
    moved = begun.rename(begun.with_name("second"))
    training = of(moved, resume=True)
    with training.session() as session, session.step() as step:
        step.add_all(training.criterion)
    assert of(moved.rename(begun.with_name("third")), resume=True).run().charged_steps == 7
    assert charged(begun.with_name("third")) == 7


def test_a_copy_is_charged_in_the_ledger_of_the_first(begun: Path) -> None:
    copy = Path(shutil.copytree(begun, begun.with_name("copy")))
    of(copy, resume=True).run()
    assert (charged(begun), charged(copy)) == (7, 3)
    assert of(begun, resume=True).run().charged_steps == 7  # nothing is left for the first one


@pytest.mark.parametrize("how", [shutil.copy2, lambda one, other: Path(other).hardlink_to(one)], ids=["files", "links"])
def test_a_copy_of_one_that_is_gone_is_refused(begun: Path, how: Any) -> None:
    copy = Path(shutil.copytree(begun, begun.with_name("copy"), copy_function=how))
    begun.rename(begun.with_name("second")) if how is shutil.copy2 else None
    if begun.exists():
        copied = Path(shutil.copytree(begun, begun.with_name("other"), copy_function=how))
        shutil.rmtree(begun)
        with pytest.raises(LedgerError, match="may be a copy"):
            of(copied, resume=True).run()
    with pytest.raises(LedgerError, match=f"{copy} may be a copy of the run folder {begun}, .* move the folder"):
        of(copy, resume=True).run()
    assert charged(copy) == 3


def test_a_copy_that_was_given_the_numbers_of_the_files_of_the_first_is_refused(begun: Path) -> None:
    """A file system gives freed numbers out again: the time of the last change of the key tells its copy all the
    same."""
    moved = begun.rename(begun.with_name("second"))
    (moved / "key").chmod(0o600)  # as it was: only the time is another
    with pytest.raises(LedgerError, match="may be a copy"):
        of(moved, resume=True).run()
    assert charged(moved) == 3


def test_a_moved_folder_goes_to_its_copy_at_the_first_place(begun: Path) -> None:
    """As two that are charged apart would both have what is left."""
    copy = Path(shutil.copytree(begun, begun.with_name("copy")))
    moved = begun.rename(begun.with_name("second"))
    copy.rename(begun)
    of(moved, resume=True).run()
    assert (charged(begun), charged(moved)) == (7, 3)


def test_a_folder_of_an_earlier_version_goes_on_where_it_was_and_is_told_to_move_back(begun: Path) -> None:
    facts = json.loads((begun / "run.json").read_text())
    (begun / "run.json").write_text(json.dumps({name: facts[name] for name in ("run", "ledger")}))
    moved = begun.rename(begun.with_name("second"))
    with pytest.raises(LedgerError, match=f"move the folder itself back to {begun}"):
        of(moved, resume=True).run()
    assert of(moved.rename(begun), resume=True).run().charged_steps == 7


def test_a_ledger_elsewhere_stays_where_it_is(tmp_path: Path) -> None:
    training = of(tmp_path / "first", ledger=str(tmp_path / "team.sqlite"))
    with training.session() as session, session.step() as step:
        step.add_all(training.criterion)
    moved = (tmp_path / "first").rename(tmp_path / "second")
    assert of(moved, resume=True).run().charged_steps == 7
    assert not (moved / "ledger.sqlite").exists()
