"""Runs that are killed after their entry in the ledger, and before their first attempt."""

from pathlib import Path

import pytest
from problems import blobs, tiny_training

from discreet.certificate.declared_canaries import DeclaredCanaries
from discreet.training import PublicBatches
from discreet.training.public import inserted_canaries
from discreet.training.run import attempt


class Killed(BaseException):
    pass


def kill(*_: object) -> None:
    raise Killed


def test_a_run_killed_before_it_kept_its_public_rows_goes_on_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = PublicBatches(*blobs(9, seed=1), weight=0.5)
    monkeypatch.setattr(attempt, "declare", kill)
    with pytest.raises(Killed):
        tiny_training(tmp_path, stream=None, public=public).run()
    monkeypatch.undo()
    assert tiny_training(tmp_path, stream=None, public=public, resume=True).run().charged_steps == 7
    assert (tmp_path / "run" / "public.json").exists()


def test_a_run_killed_before_it_kept_its_canaries_goes_on_with_them(tmp_path: Path) -> None:
    canaries = DeclaredCanaries.of(["one", "two"], 10)
    inserted_canaries.declare_canaries(tmp_path, canaries, ())
    assert (tmp_path / "canaries.json").exists()
