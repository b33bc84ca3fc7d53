"""Budgets of data sets: what all runs spend together never exceeds them, however the runs come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import reduce
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from ledgers import PLAN, filled, guarantee, three

from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import BudgetExhausted, InputError
from discreet.ledger import Budget, Ledger
from discreet.ledger.budget import Charged, admit_run, opening

FLOATS = st.floats(0, 1e300)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.sqlite")
    yield opened
    opened.close()


def charged(pairs: Sequence[tuple[float, float]]) -> Charged:
    """What runs with these (epsilon, delta) were charged."""
    kind = opening(guarantee())
    return reduce(Charged.plus, [kind | {"epsilon": epsilon, "delta": delta} for epsilon, delta in pairs], Charged())


@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=20))
def test_sums_are_rounded_up_and_by_one_digit_at_most(charges: list[tuple[float, float]]) -> None:
    spent = charged(charges).spent
    for found, values in ((spent.epsilon, [e for e, _ in charges]), (spent.delta, [d for _, d in charges])):
        exact = sum(map(Fraction, values))
        assert Fraction(found) >= exact
        assert Fraction(math.nextafter(found, -1)) < exact or found == exact == 0


def test_exact_sums_stay_exact_and_inexact_ones_are_refused() -> None:
    admit_run(Budget(1.0, 0.5), charged([(0.25, 0.125)] * 3), guarantee(0.25, 0.125), "patients")  # precisely used up
    with pytest.raises(BudgetExhausted):  # 0.1 is a little more than a tenth, so ten of them are more than 1
        admit_run(Budget(1.0, 0.5), charged([(0.1, 0.01)] * 9), guarantee(0.1, 0.01), "patients")


def test_what_is_said_of_a_run_that_is_refused_is_rounded_up() -> None:
    with pytest.raises(BudgetExhausted, match=r"needs epsilon 1\.00001 and delta .* spent 2\.00001 and 1e-09 of 3"):
        admit_run(Budget(3.0, 0.5), charged([(2.0000004, 1e-9)]), guarantee(1.0000004, 1.001e-4), "patients")


@pytest.mark.parametrize("charges", [[math.inf], [math.inf, 1.0], [1e308, 1e308], [math.nan]])
def test_what_has_no_finite_sum_is_infinite_and_refused(charges: list[float]) -> None:
    pairs = [(epsilon, 1e-9) for epsilon in charges]
    with pytest.raises(BudgetExhausted):
        admit_run(Budget(1e300, 0.5), charged(pairs), guarantee(), "patients")
    assert not charged([*pairs, (1.0, 0.0)]).spent.epsilon < math.inf


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, True, "1", None])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -1e-5, math.inf, math.nan, False, "0.1", None])
def test_a_delta_that_is_no_budget_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="delta"):
        Budget(1.0, delta)


def test_without_a_budget_there_is_no_limit(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.open_run(PLAN, guarantee(1e6, 0.9), "patients")
        ledger.open_run(PLAN, guarantee(math.inf, 0.9))
    limit, spent = ledger.budget("patients")
    assert limit is None
    assert (spent.epsilon, spent.runs) == (3e6, 3)
    assert spent.delta >= 2.7


def test_a_refusal_writes_nothing_and_frees_the_lock(ledger: Ledger) -> None:
    ledger.set_budget("patients", Budget(1.0, 1e-5))
    before = ledger.verify()
    for refused in (guarantee(1.5), guarantee(1.0, 2e-5), guarantee(math.inf)):
        with pytest.raises(BudgetExhausted, match="nothing was charged"):
            ledger.open_run(PLAN, refused, "patients")
    assert ledger.verify() == before
    ledger.open_run(PLAN, guarantee(1.0, 1e-5), "patients")
    with pytest.raises(BudgetExhausted):
        ledger.open_run(PLAN, guarantee(1e-300, 1e-300), "patients")


def test_runs_of_another_kind_are_refused(ledger: Ledger) -> None:
    ledger.set_budget("patients", Budget(10.0, 1e-4))
    before = ledger.verify()
    with pytest.raises(InputError, match=r"the budget of data set 'patients' is for add_remove"):
        ledger.open_run(PLAN, guarantee(adjacency=Adjacency.REPLACE_ONE), "patients")
    assert ledger.verify() == before
    for unit in set(Unit) - {Unit.EXAMPLE}:
        with pytest.raises(InputError, match="the budget of data set"):
            ledger.open_run(PLAN, guarantee(unit=unit), "patients")


def test_epsilons_of_different_kinds_are_never_added(ledger: Ledger) -> None:
    """Neither by a budget that comes after runs without one, nor by one that replaces another."""
    ledger.open_run(PLAN, guarantee(adjacency=Adjacency.ZERO_OUT), "patients")
    with pytest.raises(InputError, match="do not add up"):
        ledger.set_budget("patients", Budget(10.0, 1e-4))
    ledger.set_budget("patients", Budget(10.0, 1e-4, Adjacency.ZERO_OUT))
    ledger.open_run(PLAN, guarantee(adjacency=Adjacency.ZERO_OUT), "patients")
    with pytest.raises(InputError, match="do not add up"):
        ledger.set_budget("patients", Budget(10.0, 1e-4, Adjacency.REPLACE_ONE))
    assert ledger.budget("patients")[0] == Budget(10.0, 1e-4, Adjacency.ZERO_OUT)


def test_the_newest_budget_counts_and_earlier_runs_count_in_it(ledger: Ledger) -> None:
    ledger.set_budget("patients", Budget(1.0, 1e-4))
    ledger.open_run(PLAN, guarantee(1.0), "patients")
    with pytest.raises(BudgetExhausted):
        ledger.open_run(PLAN, guarantee(1.0), "patients")
    ledger.set_budget("patients", Budget(2.0, 1e-4))
    ledger.open_run(PLAN, guarantee(1.0), "patients")
    ledger.set_budget("patients", Budget(0.5, 1e-4))  # below what is spent: nothing more fits
    with pytest.raises(BudgetExhausted):
        ledger.open_run(PLAN, guarantee(1e-9), "patients")
    assert ledger.budget("patients")[1].epsilon == 2.0


def test_data_sets_have_budgets_of_their_own(ledger: Ledger) -> None:
    ledger.set_budget("patients", Budget(1.0, 1e-4))
    ledger.set_budget("staff", Budget(2.0, 1e-4))
    ledger.open_run(PLAN, guarantee(1.0), "patients")
    ledger.open_run(PLAN, guarantee(2.0), "staff")
    for name in ("patients", "staff"):
        with pytest.raises(BudgetExhausted, match=name):
            ledger.open_run(PLAN, guarantee(0.1), name)


@pytest.mark.parametrize("name", [" patients", "patients\n", "a\x00b", "\udcff", "x" * 201])
def test_names_that_could_be_mistaken_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(InputError, match="name must be printable"):
        ledger.set_budget(name, Budget(1.0, 1e-4))
    with pytest.raises(InputError, match="name must be printable"):
        ledger.open_run(PLAN, guarantee(), name)
    with pytest.raises(InputError, match="--dataset-id"):
        ledger.set_budget("", Budget(1.0, 1e-4))
    assert ledger.verify().entries == 0


def test_a_stopped_run_gets_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    run, _ = filled(path)
    ledger = Ledger(path)
    ledger.start_attempt(run, PLAN)
    ledger.reserve(run, 1, three)
    assert ledger.budget("patients")[1].epsilon == 1.0  # as it was charged: neither less nor twice
    ledger.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.floats(1e-3, 10),
    st.floats(1e-9, 1e-3),
    st.lists(st.tuples(st.floats(0, 3), st.floats(1e-12, 3e-4)), max_size=12),
)
def test_no_sequence_of_runs_exceeds_the_budget(
    ledger: Ledger, epsilon: float, delta: float, wishes: list[tuple[float, float]]
) -> None:
    dataset = f"data {ledger.verify().entries}"
    ledger.set_budget(dataset, Budget(epsilon, delta))
    admitted: list[tuple[float, float]] = []
    for wish in wishes:
        before = ledger.verify()
        fits = all(
            sum(map(Fraction, values)) <= Fraction(limit)
            for values, limit in zip(zip(*admitted, wish, strict=True), (epsilon, delta), strict=True)
        )
        try:
            ledger.open_run(PLAN, guarantee(*wish), dataset)
        except BudgetExhausted:
            assert ledger.verify() == before
            assert not fits
        else:
            assert fits
            admitted.append(wish)
    assert sum((Fraction(e) for e, _ in admitted), Fraction()) <= Fraction(epsilon)
    assert sum((Fraction(d) for _, d in admitted), Fraction()) <= Fraction(delta)
    assert ledger.budget(dataset)[1] == charged(admitted).spent
