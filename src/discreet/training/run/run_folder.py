"""The private folder of a run: its key, its checkpoint, and the path of its ledger. Nothing in it is for publishing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from discreet.core.disk import create_durably, gone_if_it_fails, make_folder, sync_folder, write_durably
from discreet.core.errors import InputError, LedgerError, typed
from discreet.core.processes import refuse_several_processes
from discreet.ledger.units_spent import FILE
from discreet.randomness import load_key, new_run_key, save_key
from discreet.training.run.checkpoint_files import parts_in

_README = """\
# Private: do not publish this folder

`discreet train` keeps here what it needs to go on after an interruption: its secret key, its checkpoint, and the ledger
of what was charged, if no ledger is shared. Who has the key can undo the noise.

- A run that was interrupted: `discreet train --resume FOLDER` goes on with it.
- `individual.npz`, if the run was to keep it, says what each person has spent. It is as private as the data: show it to
  nobody, and delete it when you have seen it.
- Once the model is published, key and checkpoint are gone. Keep the ledger as long as the data is in use: it says what
  was given away. Then the folder can be deleted.
"""
_IGNORED = "# Keys, checkpoints and ledgers: nothing here is for publishing.\n*\n"


def new_name() -> str:
    """The path of a folder for a run that has been given none."""
    return f"discreet-runs/{secrets.token_hex(4)}"


def make_private_folder(path: Path) -> None:
    """Make a new folder that only its owner can read and that git ignores, so nobody commits a key or a ledger by
    mistake.

    `FileExistsError` if it is there already.
    """
    refuse_several_processes()
    try:
        make_folder(path.absolute().parent)
        path.mkdir(mode=0o700)
        with gone_if_it_fails(path):
            sync_folder(path.absolute().parent)
            create_durably(path / ".gitignore", _IGNORED.encode())  # before the key, which it keeps out of git
            create_durably(path / "README.md", _README.encode())
    except FileExistsError:
        raise
    except OSError as error:
        raise InputError(f"cannot make the run folder {path}: {error.strerror}; name another one") from None


@dataclass(frozen=True, slots=True)
class _Secrets(Sequence[Path]):
    """The key, the index of the checkpoint, and the parts and drafts that are beside them."""

    key: Path
    checkpoint: Path

    def _now(self) -> tuple[Path, ...]:
        folder = self.key.parent
        return self.key, self.checkpoint, *parts_in(folder), *_drafts(folder)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    @overload
    def __getitem__(self, at: int) -> Path: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Path, ...]: ...
    def __getitem__(self, at: int | slice) -> Path | tuple[Path, ...]:
        return self._now()[at]


def _drafts(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("*.draft")))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files in the folder at `path`."""

    path: Path

    @property
    def key(self) -> Path:
        """The key of the run's randomness, mode 0600; gone after publishing."""
        return self.path / "key"

    @property
    def checkpoint(self) -> Path:
        """The index of the checkpoint: everything released so far."""
        return self.path / "checkpoint.json"

    @property
    def ledger(self) -> Path:
        """The ledger of a run that has its own."""
        return self.path / "ledger.sqlite"

    @property
    def secrets(self) -> Sequence[Path]:
        """The files to destroy when the model is published: the key, the checkpoint and drafts of one. Those that are
        there when one looks."""
        return _Secrets(self.key, self.checkpoint)

    @property
    def identity(self) -> Path:
        """The file with the run's name and its ledger."""
        return self.path / "run.json"

    @property
    def run(self) -> str:
        """The run's name; "" if it was never started, or nobody can tell."""
        try:
            return str(json.loads(self.identity.read_text())["run"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    @property
    def seed(self) -> int | None:
        """The seed of torch's generator in the first start; None if it was never started, or nobody can tell."""
        try:
            return int(json.loads(self.identity.read_text())["seed"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def remedy(self) -> str:
        """Advice for a resumed start with another plan or model than the first: likely random weights have no seed."""
        if self.seed == torch.initial_seed():
            return "resume with the same, a model that has trained since made again as at the start"
        call = f"torch.manual_seed({'' if self.seed is None else self.seed}) before it is made, as in the first start"
        return f"resume with the same (if the model's first weights are random, call {call})"

    @property
    def model_moved(self) -> str:
        """The error message for a model that has changed since its `Training` was made, with how to go on."""
        said = "was changed since this Training was made; "
        if not self.run:
            return said + "make a new one"
        options = f"run=RunOptions({str(self.path)!r}, resume=True)"
        return f"{said}make both again, the model as at the start: a Training with {options} goes on with the run"

    @property
    def answers(self) -> Path:
        """Answers of queries before the first step, if they are published with the model."""
        return self.path / "released.safetensors"

    @property
    def individual(self) -> Path:
        """The file of what each unit has spent of its own budget, mode 0600, if the run keeps it. As private as the
        data."""
        return self.path / FILE

    def check_new(self) -> None:
        """Refuse a folder that exists already."""
        if self.path.exists():
            raise self._taken()

    def _taken(self) -> InputError:
        if self.path.is_dir() and not self.identity.exists():
            return InputError(
                f"the folder {self.path} exists already: it is of a run that was interrupted before it began, or is no "
                "run's; delete it, or name another one"
            )
        if not self.path.is_dir():
            return InputError(f"there can be no run folder {self.path}, as a file is in its place; name another one")
        return InputError(
            f"the run folder {self.path} exists already; go on with --resume {typed(self.path)} (in Python: "
            "resume=True), or name another one"
        )

    def create(self) -> bytes:
        """Make the folder, and the key in it."""
        key = new_run_key()
        try:
            make_private_folder(self.path)
        except FileExistsError:
            raise self._taken() from None
        with gone_if_it_fails(self.path):
            save_key(self.key, key)
        return key

    def remove_drafts(self) -> None:
        """Remove what was half written when the run was interrupted."""
        for draft in _drafts(self.path):
            draft.unlink(missing_ok=True)

    def remember(self, run: str, ledger: str) -> None:
        """Write the run's name and ledger, durably: a charged run whose name is lost cannot be resumed. With the seed
        that torch has, which makes the same first model again if the script sets none; and, if the ledger is in this
        folder, the numbers by which the file system knows the key beside it, which a move keeps and a copy does not."""
        facts: dict[str, object] = {"run": run, "ledger": ledger, "seed": torch.initial_seed()}
        if ledger == str(self.ledger.absolute()):
            facts["key"] = _numbers(self.key)
        write_durably(self.identity, (json.dumps(facts) + "\n").encode())

    def keep_released(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the answers of queries, durably: they are charged, and not given again."""
        write_durably(self.answers, save({name: tensor.contiguous() for name, tensor in tensors.items()}))

    def released(self) -> dict[str, Tensor]:
        """The tensors that `keep_released` wrote; empty if there are none."""
        try:
            return load(self.answers.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, SafetensorError) as error:
            raise InputError(f"cannot read {self.answers}: {error}; start a new run") from None

    def recall(self) -> tuple[bytes, str, str]:
        """(key, run, ledger) of the run that was started in this folder."""
        try:
            facts = json.loads(self.identity.read_text())
            key = load_key(self.key)
            if not any(key):
                raise ValueError("a key that was overwritten, but not removed yet")
            run, ledger, numbers = str(facts["run"]), str(facts["ledger"]), facts.get("key")
        except (OSError, ValueError, KeyError, TypeError):
            why = "it is published, or its key is lost" if self.identity.exists() else "none was begun there"
            raise InputError(
                f"{self.path} holds no run that can be resumed ({why}); start a new one, in another folder"
            ) from None
        return key, run, self._ledger_now(run, ledger, numbers)

    def _ledger_now(self, run: str, ledger: str, numbers: object) -> str:
        """The ledger of the run: where it was, or in this folder if the folder was moved.

        Of a folder and its copy only one may have the charges, so what tells them apart decides: the place where the
        ledger was as long as this run is there, and then the numbers of the file of its key.
        """
        here, then = self.ledger.absolute(), Path(ledger)
        if "://" in ledger or then == here or not here.exists():
            return ledger
        beside = RunFolder(then.parent).run
        if then.exists() and beside in ("", run):
            return ledger
        if numbers is not None and numbers == _numbers(self.key):
            return str(here)
        if then.exists():
            return ledger  # a ledger that does not know the run, and says so
        raise LedgerError(
            f"{self.path} may be a copy of the run folder {then.parent}, whose ledger is gone from there; move the "
            f"folder itself back to {then.parent}, as no two copies of one run may be charged apart"
        )


def _numbers(file: Path) -> list[int] | None:
    """Device, number and time of the last change of a file that nobody changes. They stay when its folder is moved on
    its disk, and nobody can give a copy that time, if it gets the number. None if it cannot be told from a copy."""
    try:
        found = file.stat()
    except OSError:
        return None
    return [found.st_dev, found.st_ino, found.st_ctime_ns] if found.st_nlink == 1 else None
