"""`discreet ledger`: what was spent, whether the record is whole, and budgets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ledgers import PLAN, filled, guarantee, sql, three

from discreet.cli.app import run as discreet
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.events import Gaussian
from discreet.ledger import Ledger, public_record

Said = tuple[int, str, str]
Command = Callable[..., Said]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ask(path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """(exit code, output, errors) of `discreet ledger COMMAND --ledger PATH ...`."""

    def asked(command: str, *options: str) -> Said:
        code = discreet(["ledger", command, "--ledger", str(path), *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


def published(folder: Path, path: Path, run: str) -> Path:
    """As much of a published folder as names a run."""
    ledger = Ledger(path)
    folder.mkdir()
    entries = ledger.entries(run)
    record = {"entries": public_record(entries), "head": {"number": entries[-1].number, "seal": entries[-1].hash}}
    (folder / "certificate.json").write_text(json.dumps({"ledger": record}))
    ledger.close()
    return folder


def test_show(path: Path, ask: Command) -> None:
    run, count = filled(path)
    code, out, _ = ask("show")
    assert code == 0
    assert len(out.splitlines()) == count
    assert f"run {run[:8]}: 3 steps charged from step 6" in out
    code, out, _ = ask("show", "--json")
    assert [json.loads(line)["number"] for line in out.splitlines()] == list(range(count))


def test_one_step_is_said_in_the_singular(path: Path, ask: Command) -> None:
    ledger = Ledger(path)
    run = ledger.open_run(PLAN, guarantee())
    ledger.reserve(run, ledger.start_attempt(run, PLAN), lambda _: [Gaussian(5.0)])
    ledger.close()
    assert f"run {run[:8]}: 1 step charged from step 0" in ask("show")[1]


def test_verify(path: Path, ask: Command) -> None:
    _, count = filled(path)
    code, out, _ = ask("verify")
    assert code == 0
    assert out.startswith(f"{count} entries")
    sql(path, "UPDATE discreet_entries SET steps = 1 WHERE number = 3")
    code, out, err = ask("verify")
    assert (code, out) == (1, "")
    assert "entry 3 of the ledger was edited" in err
    assert err.count("\n") == 1
    assert ask("show")[0] == 2


def test_verify_with_a_folder(path: Path, tmp_path: Path, ask: Command) -> None:
    run, count = filled(path)
    folder = published(tmp_path / "out", path, run)
    code, out, _ = ask("verify", str(folder))
    assert code == 0
    assert f"is run {run[:8]}" in out
    ledger = Ledger(path)  # more attempts after publishing are in the ledger only
    ledger.start_attempt(run, PLAN)
    ledger.close()
    assert ask("verify", str(folder))[0] == 0
    for left in range(count - 1, 0, -1):  # the chain does not see that its end was cut; the certificate does
        sql(path, "DELETE FROM discreet_entries WHERE number >= ?", left)
        assert ask("verify")[0] == 0
        code, _, err = ask("verify", str(folder))
        assert code == 1
        assert "no run of the ledger has the record" in err


def test_the_place_in_the_chain_is_compared(path: Path, tmp_path: Path, ask: Command) -> None:
    """A ledger that was made again from the record has other seals: times and what other runs charged are in them."""
    run, _ = filled(path)
    folder = published(tmp_path / "out", path, run)
    facts = json.loads((folder / "certificate.json").read_text())
    facts["ledger"]["head"]["seal"] = "0" * 64
    (folder / "certificate.json").write_text(json.dumps(facts))
    code, _, err = ask("verify", str(folder))
    assert code == 1
    assert "the chain is not the one" in err


def test_another_run_of_the_same_plan_is_not_taken_for_it(path: Path, tmp_path: Path, ask: Command) -> None:
    """The runs look alike but for their names, so entries that are missing from one must not be found in the other."""
    ledger = Ledger(path)
    runs = [ledger.open_run(PLAN, guarantee()) for _ in range(2)]
    for run in runs:
        ledger.reserve(run, ledger.start_attempt(run, PLAN), three)
    ledger.close()
    folder = published(tmp_path / "out", path, runs[1])
    assert ask("verify", str(folder))[0] == 0
    sql(path, "DELETE FROM discreet_entries WHERE number = 5")  # the last charge, of the second run
    assert ask("verify")[0] == 0
    assert ask("verify", str(folder))[0] == 1


@pytest.mark.parametrize("content", ["{}", '{"ledger": {}}', '{"ledger": []}', "[]", "no JSON", ""])
def test_a_malformed_certificate_is_bad_input(path: Path, tmp_path: Path, ask: Command, content: str) -> None:
    filled(path)
    (tmp_path / "certificate.json").write_text(content)
    code, _, err = ask("verify", str(tmp_path))
    assert code == 2
    assert err.count("\n") == 1


def test_a_certificate_without_entries_is_no_run_of_the_ledger(path: Path, tmp_path: Path, ask: Command) -> None:
    filled(path)
    (tmp_path / "certificate.json").write_text('{"ledger": {"entries": [], "head": {}}}')
    code, out, err = ask("verify", str(tmp_path))
    assert code == 1
    assert "empty" in err
    assert "is run" not in out


def test_budget(path: Path, ask: Command) -> None:
    code, out, _ = ask("budget", "--dataset-id", "patients", "--epsilon", "3", "--delta", "1e-5")
    assert code == 0
    assert "spent epsilon 0, delta 0 in 0 runs, of epsilon 3" in out
    assert "users" not in out
    _, out, _ = ask("budget", "--dataset-id", "visits", "--epsilon", "3", "--delta", "1e-3", "--unit", "user")
    assert "of epsilon 3, delta 0.001 for users, all rows of each together" in out
    ledger = Ledger(path)
    for _ in range(2):
        ledger.open_run(PLAN, guarantee(1.25), "patients")
    with pytest.raises(BudgetExhausted):
        ledger.open_run(PLAN, guarantee(1.25), "patients")
    ledger.close()
    code, out, _ = ask("budget", "--dataset-id", "patients", "--json")
    facts = json.loads(out)
    assert facts["spent"] == {"epsilon": 2.5, "delta": 2e-6, "runs": 2}
    assert facts["budget"]["epsilon"] == 3
    code, out, err = ask("budget", "--dataset-id", "patient")
    assert "no budget set" in out
    assert "the ledger has one for 'patients'" in err


def test_a_budget_that_is_changed_says_what_it_was(path: Path, ask: Command) -> None:
    set_ = ("budget", "--dataset-id", "patients", "--delta", "1e-5", "--epsilon")
    for epsilon, said in (("3", ""), ("3", ""), ("5", "before, it was epsilon 3, delta 1e-05 by filter basic")):
        code, out, err = ask(*set_, epsilon)
        assert code == 0
        assert err == (f"discreet: {said}\n" if said else "")
        assert f"of epsilon {epsilon}" in out
    _, _, err = ask("budget", "--dataset-id", "patients")
    assert err == ""


@pytest.mark.parametrize(
    "options",
    [
        ("--epsilon", "0", "--delta", "1e-5"),
        ("--epsilon", "nan", "--delta", "1e-5"),
        ("--epsilon", "inf", "--delta", "1e-5"),
        ("--epsilon", "1", "--delta", "0"),
        ("--epsilon", "1", "--delta", "1"),
        ("--epsilon", "1", "--delta", "nan"),
        ("--epsilon", "1"),
        ("--delta", "1e-5"),
    ],
)
def test_bad_budgets_are_refused_and_change_nothing(path: Path, ask: Command, options: tuple[str, ...]) -> None:
    _, count = filled(path)
    code, _, err = ask("budget", "--dataset-id", "patients", *options)
    assert code == 2
    assert err.count("\n") == 1
    assert sql(path, "SELECT count(*) FROM discreet_entries") == [(count,)]


def test_a_budget_of_another_kind_than_the_runs_is_refused(path: Path, ask: Command) -> None:
    ledger = Ledger(path)
    ledger.open_run(PLAN, guarantee(adjacency=Adjacency.ZERO_OUT), "patients")
    ledger.close()
    code, _, err = ask("budget", "--dataset-id", "patients", "--epsilon", "3", "--delta", "1e-5")
    assert code == 2
    assert "do not add up" in err


@pytest.mark.parametrize("kind", ["basic", "zcdp", "gdp"])
def test_a_budget_for_users(path: Path, ask: Command, kind: str) -> None:
    options = ("--dataset-id", "patients", "--epsilon", "3", "--delta", "1e-5", "--unit", "user", "--filter", kind)
    assert ask("budget", *options)[0] == 0
    assert json.loads(ask("budget", "--dataset-id", "patients", "--json")[1])["budget"]["unit"] == "user"
    ledger = Ledger(path)
    refused = "unit user, but the plan is for add_remove, unit example; they do not add up, so "
    with pytest.raises(InputError, match=f"{refused}set a budget for it: .* --adjacency add_remove --unit example"):
        ledger.open_run(PLAN, guarantee(1.0), "patients")
    ledger.open_run(PLAN, guarantee(1.0, unit=Unit.USER), "patients")
    with pytest.raises(InputError, match=f"{refused}plan for what the budget is for"):
        ledger.open_run(PLAN, guarantee(1.0), "patients")
    ledger.close()
    assert ask("budget", *options[:-4], "--unit", "household")[0] == 2


def test_a_ledger_that_is_not_there_is_not_made(path: Path, ask: Command) -> None:
    for command in ("show", "verify"):
        code, _, err = ask(command)
        assert code == 2
        assert "there is no ledger" in err
    code, _, err = ask("budget", "--dataset-id", "patients", "--epsilon", "1")
    assert (code, err) == (2, "discreet: a budget needs both --epsilon and --delta\n")
    assert not path.exists()


def test_without_a_ledger_of_the_user_it_is_said_where_that_of_a_run_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert discreet(["ledger", "verify", "patients-private"]) == 2
    assert "has one of its own, ledger.sqlite in its folder (MODEL.run)\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [("--filter", "zcdp"), ("--unit", "user"), ("--adjacency", "zero_out"), ("--noise", "1")], ids=" ".join
)
def test_options_of_a_budget_that_is_not_set_are_refused(path: Path, ask: Command, options: tuple[str, str]) -> None:
    _, count = filled(path)
    code, out, err = ask("budget", "--dataset-id", "patients", *options)
    assert (code, out) == (2, "")
    assert f"{options[0]} is of a budget that is set; add --epsilon and --delta, or leave it out" in err
    assert sql(path, "SELECT count(*) FROM discreet_entries") == [(count,)]


COURSE = ("--rate", "0.01", "--noise", "1", "--steps", "1000")


@pytest.mark.parametrize(
    ("kind", "more"),
    [("rdp-order", COURSE), ("rdp-order", ("--order", "9.5")), ("rdp-curve", COURSE), ("zcdp", ()), ("gdp", ())],
    ids=str,
)
def test_budgets_over_steps(path: Path, ask: Command, kind: str, more: tuple[str, ...]) -> None:
    options = ("budget", "--dataset-id", "patients", "--epsilon", "3", "--delta", "1e-5", "--filter", kind, *more)
    code, out, _ = ask(*options)
    assert code == 0
    assert f"0 % spent in 0 runs, of epsilon 3, delta 1e-05 by filter {kind}" in out
    ledger = Ledger(path)
    run = ledger.open_run(PLAN, guarantee(1.25), "patients")
    ledger.reserve(run, ledger.start_attempt(run, PLAN), lambda _: [Gaussian(50.0)] * 4)
    ledger.close()
    facts = json.loads(ask("budget", "--dataset-id", "patients", "--json")[1])
    assert 0 < facts["spent"]["share"] < 0.1
    assert facts["spent"]["runs"] == 1
    assert facts["budget"]["filter"] == kind
    code, _, err = ask(*options[:3], "--epsilon", "4", "--delta", "1e-5")
    assert code == 2
    assert "before the first" in err


@pytest.mark.parametrize(
    "options",
    [
        ("--filter", "rdp-order"),
        ("--filter", "rdp-curve", "--noise", "1"),
        ("--filter", "rdp-curve", "--order", "3"),
        ("--filter", "zcdp", *COURSE),
        ("--filter", "basic", "--order", "3"),
        ("--filter", "rdp-order", "--order", "1.01"),
        ("--filter", "rdp-order", "--order", "3", *COURSE),
        ("--filter", "other"),
    ],
    ids=" ".join,
)
def test_filters_that_cannot_be_set(path: Path, ask: Command, options: tuple[str, ...]) -> None:
    code, _, err = ask("budget", "--dataset-id", "patients", "--epsilon", "3", "--delta", "1e-5", *options)
    assert code == 2
    assert err
    assert not path.exists() or sql(path, "SELECT count(*) FROM discreet_entries") == [(0,)]


@pytest.mark.parametrize(
    "budget",
    [
        "--filter gdp --epsilon 3 --delta 5e-324",
        "--filter gdp --epsilon 1e308 --delta 1e-5",
        "--filter zcdp --epsilon 1e-300 --delta 1e-5",
        "--filter rdp-order --epsilon 3 --delta 1e-5 --noise 1e-200 --steps 5",
        "--filter rdp-curve --epsilon 3 --delta 1e-5 --noise 1e-200 --steps 5",
    ],
)
def test_a_budget_beyond_all_numbers_is_one_line(ask: Command, budget: str) -> None:
    code, _, said = ask("budget", "--dataset-id", "people", *budget.split())
    assert (code, len(said.splitlines())) == (2, 1)
    assert "leaves nothing to spend" in said
