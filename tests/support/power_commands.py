"""Commands whose files are followed through every change, cut, and held against the rules of `power_rules`."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer
from power_cuts import Cut, Disk, recorded
from power_rules import Found, RunRule, accepted, charged, done, inside, looked_at, of_run

from discreet.cli.app import run
from discreet.jobs import train as job_module
from discreet.ledger import Budget, Ledger

LINEAR = ("--set", "model={name: linear, inputs: 64, outputs: 10}")
"""The pixels as they are: features of strokes are computed once for each run, which writes nothing."""

FAST = (*LINEAR, "--set", "engine=auto", "--set", "noise=fast", "--set", "steps=4")
SEARCH = (
    *("--trials", "1.5", "--law", "logarithmic", "--grid", "optimizer.lr=0.5,1"),
    *("--holdout", "10%", "--ledger", "ledger.sqlite"),
)


def drawn(chance: random.Random) -> tuple[int, list[str]]:
    """Steps, and settings of a small run."""
    steps = chance.randint(1, 9)
    settings = (f"steps={steps}", f"engine={chance.choice(['auto', 'exact', 'vmap'])}", "noise=fast")
    return steps, [*LINEAR, *(part for one in settings for part in ("--set", one))]


def train(folder: Path, chance: random.Random) -> Found:
    """A run, with a ledger of its own or a shared one with a budget, published beside or in a new folder."""
    work, (steps, settings) = new(folder), drawn(chance)
    out = chance.choice(["model", "new/deep/model"])
    shared = chance.random() < 0.5
    ledger = "books.sqlite" if shared else f"{out}.run/ledger.sqlite"
    given = ["--ledger", ledger, "--dataset-id", "digits"] if shared else []
    with inside(work):
        if shared:
            done("ledger", "budget", *given, "--epsilon", "4", "--delta", "1e-3")
        with recorded(work, folder / "cuts") as disk:
            done("train", "digits", *settings, *given, "--out", out)
            ended(disk)
    return of_run(RunRule(work, out, ledger, steps), disk.cuts, chance, f"train {settings} {out} {given}")


def publish(folder: Path, chance: random.Random) -> Found:
    """The publication alone, of a run that was interrupted before it, or in its middle with --finish."""
    work, (steps, settings) = new(folder), drawn(chance)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with inside(work), pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_module, "publish", interrupted)
        assert run(["train", "digits", *settings, "--out", "model"]) == 130
        patch.undo()
        with recorded(work, folder / "cuts") as disk:
            done("train", "--resume", "model.run", *chance.choice([[], ["--finish"]]))
            ended(disk)
    return of_run(RunRule(work, "model", "model.run/ledger.sqlite", steps), disk.cuts, chance, f"publish {settings}")


def tune(folder: Path, chance: random.Random) -> Found:
    """A search: charged whole and at once; it cannot go on, and its charge is never lost."""
    work, (_, settings) = new(folder), drawn(chance)
    with inside(work), recorded(work, folder / "cuts") as disk:
        done("tune", "digits", *SEARCH, *settings, "--out", "model")
        ended(disk)

    def check(cut: Cut) -> None:
        published = (cut.folder / "model").is_dir()
        assert charged(cut.folder / "ledger.sqlite") or not (published or cut.released)
        assert published or not cut.returned
        assert not published or accepted(cut.folder / "model")

    return looked_at(disk.cuts, check, f"tune {settings}")


def sign(folder: Path, chance: random.Random) -> Found:
    """A signature, and another in its place: whole or not there, the first or the second."""
    work, (_, settings) = new(folder), drawn(chance)
    keys = ("mine.key", "theirs.key")
    with inside(work):
        done("train", "digits", *settings, "--out", "model")
        with recorded(work, folder / "cuts") as disk:
            for key in keys:
                done("sign", "model", "--key", key, "--new-key")
                ended(disk)

    def check(cut: Cut) -> None:
        signed = (cut.folder / "model" / "signature.json").exists()
        valid = [
            name
            for name in keys
            if (cut.folder / f"{name}.pub").exists()
            and (cut.folder / f"{name}.pub").read_bytes()
            and accepted(cut.folder / "model", cut.folder / f"{name}.pub")
        ]
        assert accepted(cut.folder / "model")
        assert len(valid) == signed
        assert signed or not cut.returned
        assert cut.returned < 2 or valid == [keys[1]]
        for name in valid:
            assert (cut.folder / name).read_bytes() == (work / name).read_bytes()
            assert not (cut.folder / name).stat().st_mode & 0o077

    return looked_at(disk.cuts, check, "sign")


def budget(folder: Path, chance: random.Random) -> Found:
    """Budgets that are set and changed, in a ledger that is made in a new folder: what was said to be set is."""
    work = new(folder)
    limits = [chance.uniform(0.5, 50) for _ in range(chance.randint(2, 5))]
    home = str(work / "home")
    ledger = ("home/discreet/ledger.sqlite", ()) if chance.random() < 0.5 else ("l.sqlite", ("--ledger", "l.sqlite"))
    with inside(work), pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", home)
        with recorded(work, folder / "cuts") as disk:
            for limit in limits:
                done(
                    "ledger", "budget", *ledger[1], "--dataset-id", "people", "--epsilon", str(limit), "--delta", "1e-6"
                )
                ended(disk)

    def check(cut: Cut) -> None:
        path = cut.folder / ledger[0]
        found = None
        if path.exists():
            opened = Ledger(path)
            opened.verify()
            found = opened.budget("people")[0]
            opened.close()
        allowed = [
            None if n == 0 else Budget(limits[n - 1], 1e-6)
            for n in (cut.returned, cut.returned + 1)
            if n <= len(limits)
        ]
        assert found in allowed, (found, allowed)

    return looked_at(disk.cuts, check, f"budget {ledger[0]} {limits}")


def table(folder: Path, chance: random.Random) -> Found:
    """A run on a table of which a range is bought before the first step; cut off there, one line says it is lost."""
    work, steps = new(folder), chance.randint(1, 5)
    with inside(work):
        done("init", "table")
        schema = Path("table-start/schema.yaml")
        given = schema.read_text()
        bought = given.replace("low: 18, high: 100", "buy: {between: [0, 120], noise: 20, bins: 12}")
        assert bought != given
        schema.write_text(bought)
        with recorded(work, folder / "cuts") as disk:
            settings = ("--set", f"steps={steps}", "--set", "noise=fast", "--epsilon", "4")
            done("train", "table-start/patients.csv", "--schema", str(schema), *settings, "--out", "model")
            ended(disk)
    rule = RunRule(work, "model", "model.run/ledger.sqlite", 1 + steps)
    return of_run(rule, disk.cuts, chance, f"table {steps}")


def on_postgres(server: PostgresServer, folder: Path, chance: random.Random) -> Found:
    """A run whose ledger is in PostgreSQL, on a machine that keeps its power: the files of the run alone are cut."""
    work, (steps, settings) = new(folder), drawn(chance)
    address, scratch = server.new_database(), server.new_database()
    Ledger(scratch).close()
    given = ["--ledger", address, "--dataset-id", "digits"]
    with inside(work):
        done("ledger", "budget", *given, "--epsilon", "4", "--delta", "1e-3")
        with recorded(work, folder / "cuts") as disk:
            done("train", "digits", *settings, *given, "--out", "model")
            ended(disk)
    with connected(address) as connection:
        rows = connection.execute("SELECT * FROM discreet_entries ORDER BY number").fetchall()

    def restored(entries: int) -> str:
        with connected(scratch) as connection:
            connection.execute("TRUNCATE discreet_entries")
            for row in rows[:entries]:
                connection.execute(f"INSERT INTO discreet_entries VALUES ({', '.join(['%s'] * len(row))})", row)
        return scratch

    rule = RunRule(work, "model", "", steps, restored, address)
    return of_run(rule, disk.cuts, chance, f"train on PostgreSQL {settings}")


def connected(address: str) -> Any:
    """A connection to a database, behind the ledger's back."""
    import psycopg

    return psycopg.connect(address)


def new(folder: Path) -> Path:
    """The folder in which commands run."""
    work = folder / "work"
    work.mkdir()
    return work.resolve()


def ended(disk: Disk) -> None:
    """A command has said that it is done."""
    disk.returned += 1
    disk.cut()


COMMANDS: dict[str, Callable[[Path, random.Random], Found]] = {
    "train": train,
    "train, ranges bought": table,
    "publish": publish,
    "tune": tune,
    "sign": sign,
    "ledger budget": budget,
}
