"""What a shell shows: names to complete that are not loaded yet, and what may be meant by one that is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.queries import Account, Count, Mean, release

PACKAGES = ("accounting", "data", "data.tables", "plan", "publication", "queries", "recipes", "testing")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_lists_what_it_loads_on_first_use(name: str) -> None:
    code = (
        f"import discreet.{name} as one; print(*sorted(set(one.__all__) - set(dir(one))), 'TYPE_CHECKING' in dir(one))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


@pytest.mark.parametrize(
    ("where", "typed", "meant"), [("discreet", "publsh", "publish"), ("discreet.plan", "Metrc", "Metric")]
)
def test_a_name_that_is_not_there_is_told_what_may_be_meant(where: str, typed: str, meant: str) -> None:
    code = f"import {where} as one; one.{typed}"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"module '{where}' has no attribute '{typed}'. Did you mean: '{meant}'?" in said.stderr


def test_answers_and_accounts_fit_a_line(tmp_path: Path) -> None:
    account = Account(tmp_path / "ledger.sqlite", delta=1e-6, dataset="patients")
    assert repr(account) == (
        f"<Account of data set 'patients': ledger {tmp_path / 'ledger.sqlite'}, delta 1e-06 a call, add_remove>"
    )
    answers = release(np.ones((30, 40)), [Count(), Mean(bound=10.0)], account, 20.0)
    said = repr(answers)
    assert said.startswith(f"<Answers: {answers[0]}, [")
    assert said.endswith(f"; {answers.guarantee}>")
    assert "\n" not in said
    assert discreet.trade_off.__doc__ is not None
    assert "`power` gives" in discreet.trade_off.__doc__
