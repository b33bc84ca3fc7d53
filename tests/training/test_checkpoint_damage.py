"""Checkpoints that are damaged, of another run or of an earlier version: one error, before anything is charged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import linear, tiny_training
from torch.utils.data import Dataset

from discreet.core.errors import InputError, LedgerError
from discreet.ledger import Ledger
from discreet.training import Training
from discreet.training.run.checkpoint_files import part_name, write_part
from discreet.training.run.state_json import encoded

Change = Callable[[Path, Path], object]


def interrupted(folder: Path, **changes: Any) -> Training:
    """A run that has taken three steps, and left its checkpoint."""
    training = tiny_training(folder, stream=None, **changes)
    with training.session() as session:
        for _ in range(3):
            with session.step() as step:
                step.add_all(training.criterion)
        training.save(session)
    return training


class Unread(Dataset[Any]):
    """Rows that nobody may read."""

    def __len__(self) -> int:
        raise AssertionError("rows were read")

    def __getitem__(self, row: int) -> Any:
        raise AssertionError("rows were read")


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Change, str]] = {
    "a part is missing": (lambda index, part: part.unlink(), "no such file"),
    "a part is cut": (lambda index, part: cut_short(part), "changed, cut, or is of another checkpoint"),
    "a bit of a part is another": (lambda index, part: changed(part), "changed, cut, or is of another checkpoint"),
    "a part is of another checkpoint": (
        lambda index, part: part.write_bytes(next((index.parent.parent / "other").glob("*.safetensors")).read_bytes()),
        "changed, cut, or is of another checkpoint",
    ),
    "a part is a folder": (lambda index, part: (part.unlink(), part.mkdir()), "cannot read"),
    "the index is garbage": (lambda index, part: index.write_bytes(b"garbage"), "changed or cut"),
    "the index is cut": (lambda index, part: cut_short(index), "changed or cut"),
    "a number of the index is another": (
        lambda index, part: index.write_text(index.read_text().replace('"position": 3', '"position": 2')),
        "SHA-256 is another",
    ),
    "the index is of another format": (
        lambda index, part: index.write_text(index.read_text().replace("checkpoint/2", "checkpoint/9")),
        "not a checkpoint of this version",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_one_error_and_nothing_is_charged(tmp_path: Path, damage: str) -> None:
    training, (change, words) = interrupted(tmp_path), DAMAGES[damage]
    (part,) = (tmp_path / "run").glob("checkpoint-*.safetensors")
    (tmp_path / "other").mkdir()
    write_part(tmp_path / "other" / part_name(1, "b", 0), encoded(training.model.state_dict())[1])
    before = entries(tmp_path)
    change(training.folder.checkpoint, part)
    with pytest.raises(InputError, match=words) as raised:
        tiny_training(tmp_path, stream=None, resume=True, data=Unread())
    assert "checkpoint" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert entries(tmp_path) == before  # no attempt was noted either


def test_what_is_damaged_after_the_checks_is_found_when_the_run_is_opened(tmp_path: Path) -> None:
    training = interrupted(tmp_path)
    made, before = tiny_training(tmp_path, stream=None, resume=True), entries(tmp_path)
    (part,) = training.folder.path.glob("checkpoint-*.safetensors")
    changed(part)
    with pytest.raises(InputError, match="changed, cut, or is of another checkpoint"):
        made.run()
    assert entries(tmp_path) == before


@pytest.mark.parametrize("shard", [None, "fully"])
def test_a_checkpoint_of_another_optimizer_or_model_does_not_fit(tmp_path: Path, shard: str | None) -> None:
    shared = {"shard": shard, "engine": "bookkeeping"}
    interrupted(tmp_path, **shared)
    before = entries(tmp_path)
    (model := linear()).bias.requires_grad_(requires_grad=False)
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    with pytest.raises(InputError, match="does not fit this model or optimizer"):
        tiny_training(tmp_path, stream=None, resume=True, model=model, optimizer=optimizer, **shared).run()
    assert entries(tmp_path) == before


def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    training, other = interrupted(tmp_path / "one"), interrupted(tmp_path / "two")
    for path in training.folder.path.glob("checkpoint*"):
        path.unlink()
    for path in other.folder.path.glob("checkpoint*"):
        (training.folder.path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(LedgerError, match="the checkpoint has 3 steps"):
        tiny_training(tmp_path / "one", stream=None, resume=True).run()


def test_a_checkpoint_of_an_earlier_version_is_not_passed_over(tmp_path: Path) -> None:
    training = interrupted(tmp_path)
    for path in training.folder.path.glob("checkpoint*"):
        path.unlink()
    (training.folder.path / "checkpoint.pt").write_bytes(b"")
    with pytest.raises(InputError, match="earlier version"):
        tiny_training(tmp_path, stream=None, resume=True).run()
    (training.folder.path / "checkpoint.pt").unlink()
    assert tiny_training(tmp_path, stream=None, resume=True).run().charged_steps == 7  # from the first model


def entries(folder: Path) -> int:
    ledger = Ledger(folder / "run" / "ledger.sqlite", create=False)
    try:
        return len(ledger.entries(json.loads((folder / "run" / "run.json").read_text())["run"]))
    finally:
        ledger.close()
