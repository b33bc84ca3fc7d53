"""Frequent values, counted and drawn: what is released has the law that is paid for."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binom, chi2

from discreet.accounting.theories.sparse import escape
from discreet.core.errors import InputError
from discreet.core.events import Compose, Gaussian, Repeat, SparseHistogram
from discreet.ledger import Ledger
from discreet.queries import Account, sparse_histogram
from discreet.queries.sparse_histogram import frequent
from discreet.randomness import TestStream

Accounts = Callable[..., Account]

ROWS = 20_000


@pytest.mark.parametrize("noise", ["fast", "exact"])
def test_a_value_of_one_row_alone_is_released_as_rarely_as_is_paid_for(noise: str, accounts: Accounts) -> None:
    """20,000 values of one row each, of which a share of 0.05 may be released (false alarm: 1e-6 on either side)."""
    event = SparseHistogram(1.7, 1 + 1.7 * 1.6448536)
    alone = {f"v{i}": 1 for i in range(ROWS)}
    found = frequent(alone, event, accounts(noise=noise, delta=0.5))
    assert binom.ppf(1e-6, ROWS, 0.05) <= len(found) <= binom.isf(1e-6, ROWS, escape(event))
    assert all(count > event.threshold for count in found.values())
    assert list(found) == sorted(found)


def test_one_call_is_one_charge(accounts: Accounts) -> None:
    account, event = accounts(delta=0.5), SparseHistogram(1.7, 9.0)
    frequent({"often": 100}, event, account)
    assert isinstance(account.ledger, Ledger)
    run, *others = account.ledger.entries()
    assert [run.kind, *(one.kind for one in others)] == ["run", "attempt", "reservation", "release"]
    assert account.ledger.spent(run.run) == Compose((Compose((Repeat(event, 1),)),))


def test_a_threshold_that_is_not_kept_is_found(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with no threshold but the count itself, and with one that is a tenth of a deviation too low."""
    event = SparseHistogram(1.7, 1 + 1.7 * 1.6448536)
    alone = {f"v{i}": 1 for i in range(ROWS)}
    real = sparse_histogram.limit
    for broken in (lambda _e, one, _s: one, lambda e, one, s: real(e, one, s) - round(0.1 * s)):
        monkeypatch.setattr(sparse_histogram, "limit", broken)
        assert len(frequent(alone, event, accounts(delta=0.5))) > binom.isf(1e-6, ROWS, escape(event))


def test_neighbours_release_the_same_values_but_with_the_probability_that_is_paid(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without one row of a value of its own, 2,000 times each. Other values near the threshold are released as
    often (chi-squared on 8 lists, false alarm 1e-6), the value at most as often as its part of delta says (1e-6)."""
    event, runs = SparseHistogram(2.0, 1 + 2 * 1.2815516), 2000  # 0.1
    account = accounts(delta=0.5, noise="fast")
    paid = account.pay(event)
    streams = map(TestStream, itertools.count())
    monkeypatch.setattr(Account, "pay", lambda *_: replace(paid, stream=next(streams)))
    monkeypatch.setattr(Account, "done", lambda *_: None)
    others = {"a": 3, "b": 4, "c": 5}
    without, beside, alone = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), 0
    for _ in range(runs):
        without[tuple(frequent(others, event, account))] += 1
        found = tuple(frequent(others | {"ab": 1}, event, account))
        alone += "ab" in found
        beside[tuple(name for name in found if name != "ab")] += 1
    assert binom.ppf(1e-6, runs, 0.1) <= alone <= binom.isf(1e-6, runs, escape(event))
    lists = without.keys() | beside.keys()
    assert len(lists) == 8
    apart = sum((without[one] - beside[one]) ** 2 / (without[one] + beside[one]) for one in lists)
    assert apart < chi2.isf(1e-6, len(lists) - 1)


def test_counts_are_whole_rows_and_noise_and_the_charge_comes_first(accounts: Accounts) -> None:
    account = accounts()
    found = frequent({"many": 10**9, "none": 0}, SparseHistogram(3.0, 30.0), account)
    assert set(found) == {"many"}
    assert abs(found["many"] - 10**9) < 3.0 * 8
    assert frequent({}, SparseHistogram(3.0, 30.0), account) == {}
    with pytest.raises(InputError, match="too large"):
        frequent({"a": 1}, SparseHistogram(2.0**60, 2.0**63), account)
    assert isinstance(account.ledger, Ledger)
    charged = [entry for entry in account.ledger.entries() if entry.kind == "reservation"]
    assert len(charged) == 2


EVENT = SparseHistogram(3.0, 30.0)


@pytest.mark.parametrize(
    ("counts", "event", "said"),
    [
        (["secret"], EVENT, "counts must be a dict .*, not a list"),
        ({"secret": 3, 7: 1}, EVENT, "a value that is an int; make every value text"),
        ({"secret": 2.5}, EVENT, r"\(a float\) that is not a whole number"),
        ({"secret": float("nan")}, EVENT, r"\(a float\) that is not a whole number"),
        ({"secret": True}, EVENT, r"\(a bool\) that is not a whole number"),
        ({"secret": "77"}, EVENT, r"\(a str\) that is not a whole number"),
        ({"secret": -77}, EVENT, r"\(an int\) that is not a whole number"),
        ({"secret": 77 * 2**70}, EVENT, r"\(an int\) that is not a whole number"),
        ({"secret": 3}, Gaussian(3.0), "must be a SparseHistogram, .* not a Gaussian"),
        ({"secret": 3}, None, "must be a SparseHistogram"),
    ],
)
def test_other_kinds_are_refused_before_the_charge_and_nothing_of_the_counts_is_said(
    counts: Any, event: Any, said: str, accounts: Accounts
) -> None:
    account = accounts()
    with pytest.raises(InputError, match=said) as refused:
        frequent(counts, event, account)
    assert "secret" not in str(refused.value)
    assert "7" not in str(refused.value)
    assert isinstance(account.ledger, Ledger)
    assert account.ledger.verify().entries == 0
    with pytest.raises(InputError, match=r"by an account, .* not by a str"):
        frequent({"a": 1}, EVENT, "ledger.sqlite")  # type: ignore[arg-type]


@pytest.mark.parametrize(("noise", "escapes", "name"), [(1.0, 2.0, "escapes"), (-1.0, 0.1, "noise_multiplier")])
def test_a_threshold_for_nothing_is_refused(noise: float, escapes: float, name: str) -> None:
    with pytest.raises(InputError, match=name):
        sparse_histogram.sparse_histogram(noise, escapes)


def test_the_limit_is_never_below_the_threshold() -> None:
    """In whole units, for noise whose deviation was rounded up: P(K > k) <= Phi(-(T - 1) / s) needs k >= (T - 1) / s
    deviations of what is drawn."""
    for noise, threshold in ((10.0, 62.0), (0.1, 1.7), (3.3, 1.0000001), (1e9, 7e9)):
        for one, scale in ((1, 10), (2**27, 2**31 + 1), (1, 2**50)):
            above = sparse_histogram.limit(SparseHistogram(noise, threshold), one, scale) - one
            assert above >= (threshold - 1) / noise * scale * (1 - 1e-12)
            assert above <= math.ceil((threshold - 1) / noise * scale * (1 + 1e-11)) + 1 + scale * 2.0**-39


def test_large_counts_do_not_wrap_around_with_little_noise(accounts: Accounts) -> None:
    """A row moves the noisy count by its noise at most, wherever the count lies."""
    event = SparseHistogram(0.1, 3.0)
    counts = {f"{bits}": 2**bits + 50 for bits in range(2, 62)}
    found = frequent(counts, event, accounts(delta=0.5))
    assert set(found) == set(counts)
    assert all(abs(found[name] - counts[name]) <= 0.1 * 8 + 2.0**-52 * counts[name] for name in counts)


def test_noise_for_nobody_is_refused_before_the_charge(accounts: Accounts) -> None:
    account = accounts()
    for noise in (1e-300, 1e-7):
        with pytest.raises(InputError, match="below 2\\^-20 protects nobody"):
            frequent({"a": 3}, SparseHistogram(noise, 2.0), account)
    assert isinstance(account.ledger, Ledger)
    assert account.ledger.verify().entries == 0
