"""What must hold after a power cut, command by command: what was charged stays charged, a run goes on or one line says
what is lost, a folder that verifies is whole, and what a command said it did is done."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from power_cuts import Cut

from discreet import verify
from discreet.cli.app import run
from discreet.core.errors import LedgerError
from discreet.jobs.train import Job
from discreet.ledger import Entry, Ledger
from discreet.training.run.checkpoint_files import load_checkpoint
from discreet.training.run.run_folder import RunFolder

TOLD = (
    "start a new one",
    "start a new run",
    "is not the folder of a run",
    "there is no ledger",
    "cannot open key file",
)
"""What is said of a run that cannot go on."""


@dataclass
class Found:
    """Cuts of a command, how many of them were resumed to their end, and what was against the rule."""

    cuts: int = 0
    resumed: int = 0
    against: list[str] = field(default_factory=list)


@contextmanager
def inside(folder: Path) -> Iterator[io.StringIO]:
    """Work in a folder, quietly. Gives what is said on standard error."""
    before, said = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            yield said
    finally:
        os.chdir(before)


def done(*arguments: str) -> None:
    """Run a command that must succeed."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = run(arguments)
    assert code == 0, (arguments, code, said.getvalue())


def charges(ledger: Path | str) -> list[Entry]:
    """What a whole ledger charged: the entries that open runs, and reservations; none if there is no ledger."""
    try:
        found = Ledger(ledger, create=False)
    except LedgerError:
        assert "://" not in str(ledger)
        return []
    try:
        found.verify()
        return [entry for entry in found.walk() if entry.kind in ("run", "reservation")]
    finally:
        found.close()


def charged(ledger: Path | str) -> int:
    """Steps that a whole ledger holds; 0 if there is none."""
    return sum(entry.steps for entry in charges(ledger))


_VERDICTS: dict[bytes, bool] = {}


def accepted(folder: Path, public: Path | None = None) -> bool:
    """Whether a published folder verifies, under a public key; files that were seen before are not verified again."""
    found = sorted(folder.rglob("*"))
    mark = hashlib.sha256(b"" if public is None else public.read_bytes())
    for path in found:
        mark.update(f"{path.relative_to(folder)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    key = mark.digest()
    if key not in _VERDICTS:
        _VERDICTS[key] = verify(folder, None if public is None else str(public)).accepted
    return _VERDICTS[key]


@dataclass(frozen=True)
class RunRule:
    """The rule for a run in the folder `root`: where it publishes to, its ledger, and its steps. Of a ledger at the
    `address` of a database, `restore` puts so many entries into another, whose address it returns."""

    root: Path
    out: str
    ledger: str
    steps: int
    restore: Callable[[int], str] | None = None
    address: str = ""

    def check(self, cut: Cut) -> tuple[int, bool]:
        """Charged steps, and whether a model is published; `AssertionError` or another error if the rule is broken."""
        moved = "" if self.restore is None else self.restore(cut.entries)
        for path in cut.folder.rglob("*.json"):
            if path.name in ("job.json", "run.json"):
                text = path.read_text().replace(str(self.root), str(cut.folder))
                path.write_text(text.replace(self.address, moved) if moved else text)
        target = cut.folder / self.out
        folder = target.with_name(target.name + ".run")
        found = charges(moved or cut.folder / self.ledger)
        steps = sum(entry.steps for entry in found)
        assert cut.released <= steps <= self.steps
        published = target.is_dir()
        if published:
            assert steps == self.steps
            assert accepted(target)
        elif found:
            self._can_go_on(folder, found, steps)
        else:
            self._was_not_begun(folder)
        assert published or not cut.returned
        return steps, published

    def _can_go_on(self, folder: Path, found: Sequence[Entry], steps: int) -> None:
        assert Job.resumed(folder).target.parent == folder.parent
        kept = RunFolder(folder)
        assert kept.recall()[1] == found[0].run
        assert not kept.key.stat().st_mode & 0o077
        assert (folder / ".gitignore").read_text().endswith("*\n")
        checkpoint = load_checkpoint(kept.checkpoint)
        assert checkpoint is None or checkpoint.position <= steps

    def _was_not_begun(self, folder: Path) -> None:
        """One line says so, whatever is tried; and no key lies there that git would take."""
        if not folder.exists():
            return
        assert not (folder / "key").exists() or (folder / ".gitignore").read_text().endswith("*\n")
        for arguments in (
            ["train", "--resume", str(folder)],
            ["train", "digits", "--out", str(folder.with_suffix(""))],
        ):
            with inside(folder.parent) as said:
                code = run(arguments)
            (line,) = [one for one in said.getvalue().splitlines() if one.startswith("discreet:")]
            assert code == 2, line
            assert any(one in line for one in (*TOLD, "delete it", "exists already")), line

    def finish(self, cut: Cut) -> bool:
        """Resume what was checked to its end; nothing is left of what was half written. False if it says that it cannot
        go on, since what was bought before its first step is lost."""
        target = cut.folder / self.out
        if self.restore is not None:
            self.restore(cut.entries)
        with inside(cut.folder) as said:
            code = run(["train", "--resume", f"{self.out}.run"])
        if code == 2 and "those that were charged are lost" in said.getvalue():
            return False
        assert code == 0, said.getvalue()
        assert accepted(target)
        left = [path for path in cut.folder.rglob("*") if ".draft" in path.name]
        assert left == [], left
        return True


def looked_at(cuts: Sequence[Cut], check: Callable[[Cut], Any], what: str) -> Found:
    """All cuts held against a rule."""
    found = Found(cuts=len(cuts))
    for number, cut in enumerate(cuts):
        try:
            check(cut)
        except Exception as error:
            found.against.append(f"{what}, cut {number}: {error!r:.300}")
    return found


def of_run(rule: RunRule, cuts: Sequence[Cut], chance: random.Random, what: str, finish: int = 1) -> Found:
    """All cuts of a run checked, and some that can go on resumed."""
    open_ones: list[Cut] = []

    def check(cut: Cut) -> None:
        steps, published = rule.check(cut)
        if steps and not published:
            open_ones.append(cut)

    found = looked_at(cuts, check, what)
    for cut in chance.sample(open_ones, min(finish, len(open_ones))):
        try:
            found.resumed += rule.finish(cut)
        except Exception as error:
            found.against.append(f"{what}, {cut.folder.name} resumed: {error!r:.300}")
    return found
