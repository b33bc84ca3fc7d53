"""A run is one process: several that were launched, or are connected, are refused before anything is there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed
from ledgers import guarantee
from problems import blobs, tiny_plan, tiny_training
from searches import tuning_of
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from discreet import InputError
from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.ledger import Ledger
from discreet.queries import Account, Count, release
from discreet.training import answered_first

LAUNCHERS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of two, of which this is one; the other is made up."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_training_of_several_processes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "2")
    with pytest.raises(InputError, match=f"^{name} is '2', but a run is one process; .*Nothing was charged$"):
        tiny_training(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("group")
def test_so_is_one_in_a_process_group(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^torch\.distributed connects 2 processes, but a run is one process"):
        tiny_training(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["random_stopping", "parts"])
def test_so_is_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    search = tuning_of(kind, tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(InputError, match="one process"):
        tuning_of(kind, tmp_path)
    with pytest.raises(InputError, match="one process"):
        search.run()
    assert list(tmp_path.iterdir()) == []


def test_so_is_a_run_that_is_opened_or_resumed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = tiny_training(tmp_path)
    with monkeypatch.context() as several:
        several.setenv("WORLD_SIZE", "2")
        with pytest.raises(InputError, match="one process"):
            training.run()
    assert list(tmp_path.iterdir()) == []
    training.run()
    ledger = (tmp_path / "run" / "ledger.sqlite").read_bytes()
    again = tiny_training(tmp_path, resume=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="one process"):
        again.run()
    assert (tmp_path / "run" / "ledger.sqlite").read_bytes() == ledger


def test_so_are_queries_and_whatever_opens_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="one process"):
        release(blobs()[0].numpy(), [Count()], Account(ledger, 1e-6), 8.0)
    with pytest.raises(InputError, match="one process"):
        ledger.open_run("sha256:plan", guarantee())
    assert ledger.entries() == []
    ledger.close()
    plan = tiny_plan(before=(Gaussian(8.0, Query.COUNT),))
    with (
        pytest.raises(InputError, match=r"one process; start one only \(python, not torchrun\)\. Nothing was charged$"),
        answered_first(plan, nn.Linear(4, 3), tmp_path / "run"),
    ):
        pytest.fail("the run was opened")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("size", ["", "1", " 1 "])
def test_one_process_may_be_launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    for name in LAUNCHERS:
        monkeypatch.setenv(name, size)
    assert tiny_training(tmp_path).run().charged_steps == 7
