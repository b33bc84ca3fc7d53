"""Accounts on small ledgers, with reproducible streams."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discreet.queries import Account
from discreet.randomness import TestStream

Accounts = Callable[..., Account]


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    """`accounts(seed, **facts)`: an account on the test's ledger; attempt i of a call has the stream seed + i."""

    def make(seed: int = 0, **facts: Any) -> Account:
        given = {"ledger": tmp_path / "ledger.sqlite", "delta": 1e-6, "start": lambda i: TestStream(seed + i)}
        return Account(**(given | facts))

    return make
