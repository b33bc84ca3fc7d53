"""Commands on a disk that fails, and what must hold after each of them: one line and exit code 2; what was charged
stays charged, no noise comes twice; nothing half written passes for whole; and with a good disk the work goes on."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from broken_disk import Answer, BrokenDisk, Failure
from power_commands import FAST, SEARCH
from power_rules import TOLD, accepted, charges

from discreet.ledger import Budget, Ledger

STEPS = 4
BOOKS = ("--ledger", "books.sqlite", "--dataset-id", "people")
PRICED = ("--rate", "0.1", "--noise", "1", "--steps", "2", "--delta", "1e-5")


@dataclass
class Bench:
    """Folders in which a command of `case` runs again and again, each time from the same state. The paths stay the
    same too, as a run remembers them."""

    disk: BrokenDisk
    home: Path
    case: Case
    careless: bool = False
    """A fault of the library itself, which the rule must find."""
    whole: Answer = field(init=False)
    """What the command says, and how many calls write, on a good disk."""

    def __post_init__(self) -> None:
        self.work.mkdir(parents=True)
        self.case.prepare(self)
        shutil.copytree(self.home / "now", self.home / "before")
        self.whole = self.run(*self.case.arguments)
        assert self.whole.code == 0, self.whole
        shutil.copytree(self.work, self.home / "after")

    @property
    def work(self) -> Path:
        """The folder of the command."""
        return (self.home / "now" / "work").absolute()

    def run(self, *arguments: str, failure: Failure | None = None, stop: int | None = None) -> Answer:
        """A command in it."""
        return self.disk(self.work, arguments, failure, stop=stop, careless=self.careless)

    def done(self, *arguments: str) -> None:
        """A command that must succeed."""
        answer = self.run(*arguments)
        assert answer.code == 0, (arguments, answer)

    def attempt(self, failure: Failure) -> str:
        """What is against the rule if the command meets this failure; "" if nothing is."""
        shutil.rmtree(self.home / "now")
        shutil.copytree(self.home / "before", self.home / "now")
        answer = self.run(*self.case.arguments, failure=failure)
        try:
            told(answer)
            assert answer.code == 0 or answer.failed
            self.case.check(self, answer)
        except Exception as error:
            where = f"{self.case.name}, {failure}, {answer.failed!r}"
            return f"{where}: {error!r:.500} after {answer.code} {answer.err[-400:]!r}"
        return ""


@dataclass(frozen=True)
class Case:
    """A command, what comes before it, and what must hold after it."""

    name: str
    arguments: tuple[str, ...]
    check: Callable[[Bench, Answer], None]
    prepare: Callable[[Bench], None] = lambda bench: None


LOST = "charged steps are lost, and stay charged"
BEFORE = "before, it was epsilon 4, delta 0.001 by filter basic"


def told(answer: Answer) -> None:
    """Done, and no line but that of steps which stay charged, or of the budget that was; or one line says what is
    wrong."""
    lines = answer.err.splitlines()
    assert answer.code in (0, 2), answer
    said = [line for line in lines if line.startswith("discreet: ") and not line.endswith((LOST, BEFORE))]
    assert len(said) == (1 if answer.code else 0), lines
    assert answer.code == 0 or lines[-1] == said[0], lines
    assert not any("Traceback" in line or "Warning" in line or "Exception ignored" in line for line in lines), lines


# Runs ---------------------------------------------------------------------------------------------------------------


def releases(bench: Bench, ledger: str, *, whole: bool = False) -> int:
    """Steps that the ledger charged. Each release has noise of its own, and a charge; or there is one for the `whole`
    search."""
    path = bench.home / "now" / "journal.jsonl"
    seen = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    steps = sum(entry.steps for entry in charges(bench.work / ledger))
    assert max(Counter(one["words"] for one in seen).values(), default=0) <= 1, "noise twice"
    assert (min(len(seen), 1) if whole else len(seen)) <= steps, f"{len(seen)} releases, {steps} charged"
    return steps


def of_run(out: str, ledger: str, steps: int = STEPS) -> Callable[[Bench, Answer], None]:
    """The rule of a run that publishes to `out`."""

    def check(bench: Bench, answer: Answer) -> None:
        target, folder = bench.work / out, bench.work / f"{out}.run"
        charged = releases(bench, ledger)
        assert charged <= steps
        if target.exists():
            assert charged == steps
            assert accepted(target)
        assert answer.code or target.exists()
        if not target.exists():
            again = (
                bench.run(*bench.case.arguments)
                if not folder.exists()
                else bench.run("train", "--resume", f"{out}.run")
            )
            told(again)
            assert releases(bench, ledger) >= charged
            assert again.code == 0 or any(one in again.err for one in (*TOLD, "charged are lost")), again
            assert again.code == 0 or charged == 0 or "charged are lost" in again.err, again
            if again.code:
                return
        assert accepted(target)
        assert releases(bench, ledger) == steps or ledger == "books.sqlite"
        no_drafts(bench)
        if (folder / "key").exists():
            gone = bench.run("train", "--resume", f"{out}.run")
            told(gone)
            left = [one.name for one in (folder / "key", *folder.glob("checkpoint*")) if one.exists()]
            assert not left, (left, gone)

    return check


def no_drafts(bench: Bench) -> None:
    left = [path for path in bench.work.rglob("*") if ".draft" in path.name or path.name.startswith(".discreet-")]
    assert not left, left


def stopped(bench: Bench) -> None:
    """A run that was interrupted after two of its steps."""
    answer = bench.run("train", "digits", *FAST, "--out", "model", stop=2)
    assert answer.code == 130, answer


def finished(bench: Bench) -> None:
    """A run whose steps are taken, and which is not published."""
    answer = bench.run("train", "digits", *FAST, "--out", "model", stop=0)
    assert answer.code == 130, answer


def budgeted(bench: Bench) -> None:
    bench.done("ledger", "budget", *BOOKS, "--epsilon", "4", "--delta", "1e-3")


def bought(bench: Bench) -> None:
    """A table with a column whose range is bought."""
    bench.done("init", "table")
    path = bench.work / "table-start" / "schema.yaml"
    given = path.read_text()
    path.write_text(given.replace("low: 18, high: 100", "buy: {between: [0, 120], noise: 20, bins: 12}"))
    assert path.read_text() != given


def search(bench: Bench, answer: Answer) -> None:
    """A search cannot go on; its charge stays, and another may begin."""
    target = bench.work / "model"
    charged = releases(bench, "ledger.sqlite", whole=True)
    if target.exists():
        assert charged
        assert accepted(target)
    assert answer.code or target.exists()
    if not target.exists():
        again = bench.run(*bench.case.arguments)
        assert again.code == 0, again
        assert accepted(target)
    no_drafts(bench)


# Signatures and budgets ---------------------------------------------------------------------------------------------


def trained(bench: Bench) -> None:
    bench.done("train", "digits", *FAST, "--out", "model")


def signed(bench: Bench) -> None:
    trained(bench)
    bench.done("sign", "model", "--key", "theirs.key", "--new-key")


def signature(bench: Bench, answer: Answer) -> None:
    """The folder is whole; it has the signature that it had, or the new one. A key is whole, with its public half."""
    model, names = bench.work / "model", ("mine.key", "theirs.key")
    assert accepted(model)
    public = {one: bench.work / f"{one}.pub" for one in names}
    valid = [one for one, path in public.items() if path.exists() and path.read_bytes() and accepted(model, path)]
    assert answer.code or valid == ["mine.key"], valid
    assert len(valid) == (model / "signature.json").exists()
    again = bench.run(*bench.case.arguments)
    if again.code:  # a disk that let nothing be removed has kept what there was of a key: one line says so
        told(again)
        assert "mine.key" in again.err, again
        assert "exists already" in again.err, again
        bench.done("sign", "model", "--key", "other.key", "--new-key")
    assert accepted(model, bench.work / ("other.key.pub" if again.code else "mine.key.pub"))
    no_drafts(bench)


def limit(bench: Bench, answer: Answer) -> None:
    """The budget is the one that was, or the new one; and the new one if that was said."""
    path = bench.work / "books.sqlite"
    old = Budget(4.0, 1e-3) if (bench.home / "before" / "work" / "books.sqlite").exists() else None
    found = None
    if path.exists():
        ledger = Ledger(path)
        ledger.verify()
        found = ledger.budget("people")[0]
        ledger.close()
    assert found in ((old, Budget(5.0, 1e-3)) if answer.code else (Budget(5.0, 1e-3),)), found
    bench.done(*bench.case.arguments)


# Files that are written once ----------------------------------------------------------------------------------------


def file(bench: Bench, answer: Answer) -> None:
    """What is there is whole, and nothing half written is in the way of another try."""
    if answer.code:
        again = bench.run(*bench.case.arguments)
        told(again)
        assert again.code == 0 or "exists already" in again.err, again  # whole, but its name could not be forced
    made = {path.relative_to(bench.home / "after") for path in (bench.home / "after").rglob("*")}
    found = {path.relative_to(bench.work) for path in bench.work.rglob("*")}
    assert found == made, found ^ made
    for name in made:
        if name.suffix in (".csv", ".yaml") and (bench.work / name).is_file():
            assert (bench.work / name).read_bytes() == (bench.home / "after" / name).read_bytes(), name


def published_table(bench: Bench) -> None:
    bench.done("init", "table")
    schema = ("--schema", "table-start/schema.yaml", "--epsilon", "4", "--set", "noise=fast", "--set", "steps=4")
    bench.done("train", "table-start/patients.csv", *schema, "--out", "model")


def patients(bench: Bench) -> None:
    bench.done("init", "table")


_TABLE = ("train", "table-start/patients.csv", "--schema", "table-start/schema.yaml", "--set", "noise=fast")

CASES = [
    Case("train", ("train", "digits", *FAST, "--out", "model"), of_run("model", "model.run/ledger.sqlite")),
    Case(
        "train, on a shared ledger, into a new folder",
        ("train", "digits", *FAST, *BOOKS, "--out", "new/deep/model"),
        of_run("new/deep/model", "books.sqlite"),
        budgeted,
    ),
    Case(
        "train, ranges bought",
        (*_TABLE, "--set", "steps=4", "--epsilon", "4", "--out", "model"),
        of_run("model", "model.run/ledger.sqlite", 1 + STEPS),
        bought,
    ),
    Case("resume", ("train", "--resume", "model.run"), of_run("model", "model.run/ledger.sqlite"), stopped),
    Case("publish", ("train", "--resume", "model.run"), of_run("model", "model.run/ledger.sqlite"), finished),
    Case("tune", ("tune", "digits", *SEARCH, *FAST, "--out", "model"), search),
    Case("sign", ("sign", "model", "--key", "mine.key", "--new-key"), signature, trained),
    Case("sign again", ("sign", "model", "--key", "mine.key", "--new-key"), signature, signed),
    Case("ledger budget", ("ledger", "budget", *BOOKS, "--epsilon", "5", "--delta", "1e-3"), limit),
    Case("ledger budget again", ("ledger", "budget", *BOOKS, "--epsilon", "5", "--delta", "1e-3"), limit, budgeted),
    Case("init", ("init", "table"), file),
    Case("schema", ("schema", "table-start/patients.csv", "--out", "drafted.yaml"), file, patients),
    Case("predict", ("predict", "model", "table-start/patients.csv", "--out", "said.csv"), file, published_table),
    Case(
        "predict to Parquet",
        ("predict", "model", "table-start/patients.csv", "--out", "said.parquet"),
        file,
        published_table,
    ),
    Case("compare", ("compare", *PRICED, "--plot", "drawn.svg"), file),
    Case("plan", ("plan", "digits", "--no-probe", "--plot", "drawn.png"), file),
]
if importlib.util.find_spec("onnx"):
    CASES.append(Case("export", ("export", "model", "model.onnx"), file, published_table))
