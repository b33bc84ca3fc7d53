"""The same ledger in PostgreSQL. Skipped where there is no server to start or no psycopg."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from ledgers import PLAN, filled, guarantee, three
from postgres_server import PostgresServer

from discreet.core.errors import BudgetExhausted, InputError, LedgerError
from discreet.ledger import Budget, Ledger, sqlite_file

NewDatabase = Callable[[], str]


@pytest.fixture
def address(postgres: NewDatabase) -> str:
    return postgres()


def behind_its_back(address: str, statement: str, *, keep: bool = False) -> object:
    """Run a statement as another client; with `keep`, return its open connection."""
    import psycopg

    connection = psycopg.connect(address)
    connection.execute(statement)
    if keep:
        return connection
    connection.commit()
    connection.close()
    return None


def test_it_keeps_charges_budgets_and_attempts(address: str) -> None:
    run, count = filled(address)
    ledger = Ledger(address, create=False)
    assert (ledger.verify().entries, ledger.charged_steps(run)) == (count, 9)
    assert ledger.start_attempt(run, PLAN) == 1
    assert [receipt.position for receipt in ledger.reserve(run, 1, three)] == [9, 10, 11]
    limit, spent = ledger.budget("patients")
    assert (limit, spent.runs) == (Budget(10.0, 1e-4), 1)
    with pytest.raises(BudgetExhausted):
        ledger.open_run(PLAN, guarantee(9.5), "patients")
    with pytest.raises(InputError, match="plan or the initial model"):
        ledger.start_attempt(run, "sha256:other")
    assert ledger.verify().entries == count + 2
    ledger.close()


@pytest.mark.parametrize("column", ["kind", "run", "body", "at", "previous", "hash", "steps", "position", "attempt"])
def test_edits_are_found(address: str, column: str) -> None:
    run, count = filled(address)
    value = "7" if column in ("steps", "position", "attempt") else "'changed'"
    behind_its_back(address, f"UPDATE discreet_entries SET {column} = {value} WHERE number = {count - 1}")
    ledger = Ledger(address)
    with pytest.raises(LedgerError, match=r"edited|missing"):
        ledger.verify()
    with pytest.raises(LedgerError):
        ledger.reserve(run, 0, three)
    ledger.close()


def test_cuts_are_found(address: str) -> None:
    run, _ = filled(address)
    behind_its_back(address, "DELETE FROM discreet_entries WHERE number = 3")
    ledger = Ledger(address)
    with pytest.raises(LedgerError, match="entry 3 is missing"):
        ledger.verify()
    with pytest.raises(LedgerError, match="cut"):
        ledger.reserve(run, 0, three)
    ledger.close()


def test_many_may_create_it_at_once(address: str) -> None:
    errors: list[Exception] = []
    gate = threading.Barrier(12)

    def create() -> None:
        gate.wait()
        try:
            Ledger(address).close()
        except LedgerError as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_servers_default_isolation_does_not_matter(address: str, level: str) -> None:
    """Under a stricter one, a transaction would not see what was charged while it waited for the lock."""
    behind_its_back(
        address, f"ALTER DATABASE {address.split('/')[3].split('?')[0]} SET default_transaction_isolation = '{level}'"
    )
    run, _ = filled(address)
    ledgers = [Ledger(address) for _ in range(4)]
    granted: list[int] = []

    def spend(ledger: Ledger) -> None:
        for _ in range(10):
            granted.extend(receipt.position for receipt in ledger.reserve(run, 0, three))

    threads = [threading.Thread(target=spend, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(granted) == list(range(9, 9 + 120))
    for ledger in ledgers:
        ledger.close()


def test_a_commit_waits_for_the_disk_even_if_the_server_would_not(address: str) -> None:
    behind_its_back(address, f"ALTER DATABASE {address.split('/')[3].split('?')[0]} SET synchronous_commit = off")
    ledger = Ledger(address)
    with ledger._store.transaction() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "2min"
    ledger.close()


def test_a_ledger_that_another_client_holds(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = filled(address)
    ledger = Ledger(address)
    monkeypatch.setattr(sqlite_file, "PATIENCE_SECONDS", 1)
    other = behind_its_back(address, "LOCK TABLE discreet_entries IN EXCLUSIVE MODE", keep=True)
    with pytest.raises(LedgerError, match=r"lock timeout.*another process holds it") as caught:
        ledger.reserve(run, 0, three)
    assert "\n" not in str(caught.value)
    other.close()  # type: ignore[attr-defined]
    assert ledger.reserve(run, 0, three)[0].position == 9
    ledger.close()


def test_a_server_that_crashes_keeps_what_was_charged(postgres_server: PostgresServer, address: str) -> None:
    run, count = filled(address)
    ledger = Ledger(address)
    postgres_server.stop()
    with pytest.raises(LedgerError) as caught:
        ledger.reserve(run, 0, three)
    assert "\n" not in str(caught.value)
    with pytest.raises(LedgerError, match="check that the server runs"):
        Ledger(address)
    postgres_server.start()
    assert ledger.verify().entries == count
    assert ledger.reserve(run, 0, three)[0].position == 9
    ledger.close()


def test_a_connection_that_the_server_closed_between_two_uses_is_made_anew(
    postgres_server: PostgresServer, address: str
) -> None:
    run, count = filled(address)
    ledger = Ledger(address)
    behind_its_back(
        address,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database()",
    )
    assert ledger.reserve(run, 0, three)[0].position == 9
    postgres_server.stop()
    postgres_server.start()
    assert ledger.verify().entries == count + 1
    ledger.close()


def test_the_password_is_never_shown(address: str) -> None:
    secret = address.replace("postgres@", "postgres:hunter2@")
    ledger = Ledger(secret)
    assert "hunter2" in ledger.where  # which the private run folder keeps, to resume
    with pytest.raises(LedgerError) as caught:
        ledger.start_attempt("nobody", PLAN)
    assert "hunter2" not in str(caught.value) + ledger.shown
    with pytest.raises(LedgerError) as caught:
        Ledger(secret.replace("ledger", "nowhere"))
    assert "hunter2" not in str(caught.value)
    ledger.close()


def test_a_ledger_that_must_be_there_is_not_made(address: str) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(address, create=False)
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(address, create=False)
    Ledger(address).close()
    Ledger(address, create=False).close()


@pytest.mark.parametrize("address", ["postgresql://host:port/db", "postgresql://[", "postgresql://localhost:1/db"])
def test_bad_addresses(address: str, postgres_server: PostgresServer) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger(address)
    assert "\n" not in str(caught.value)


def test_without_psycopg_the_message_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from discreet.ledger import Ledger\n"
        "from discreet.core.errors import LedgerError\n"
        "try:\n    Ledger('postgresql://host/db')\n"
        "except LedgerError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("install discreet[postgres]")
