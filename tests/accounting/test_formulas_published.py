"""Classic composition, published figures and schedules against the same formulas, written out once more.

As in `test_formulas`: right, tight, and rounded up where the library promises to.
"""

import math
from fractions import Fraction

import mpmath as mp
import pytest
from corollary_1 import filter_admits, filter_curve

from discreet.accounting.schedules import Schedule, epochs_within, parse, solve_rate
from discreet.accounting.theories import basic_and_advanced, paper_figures
from discreet.core.errors import InputError


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def rounded_up(found: float, exact: mp.mpf, within: mp.mpf) -> None:
    assert exact <= found <= exact + within * abs(exact)


# Classic


def test_amplification_is_rounded_up() -> None:
    for rate in (0.3, 1e-5, 1e-200):
        for epsilon in (0.01, 1.0, 30.0, 599.0, 601.0, 5000.0):
            exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(epsilon)))
            found, delta = basic_and_advanced.amplified(epsilon, 0.25, rate)
            assert exact <= found <= exact * (1 + mp.mpf("2e-13")) + mp.mpf("1e-9") * (epsilon > 600)
            assert delta == rate * 0.25


def test_classic_sums_are_rounded_up() -> None:
    pairs = [(0.1, 3), (0.7, 11), (2.0, 1)]
    spread = sum(count * mp.mpf(epsilon) ** 2 for epsilon, count in pairs)
    for slack in (0.3, 1e-9):
        root = mp.sqrt(-2 * mp.log(slack) * spread)
        drv = root + sum(count * mp.mpf(e) * mp.expm1(mp.mpf(e)) for e, count in pairs)
        kov = root + sum(count * mp.mpf(e) * mp.tanh(mp.mpf(e) / 2) for e, count in pairs)
        rounded_up(basic_and_advanced.advanced(pairs, slack), drv, mp.mpf("2e-13"))
        rounded_up(basic_and_advanced.optimised(pairs, slack), kov, mp.mpf("2e-13"))
    rounded_up(
        basic_and_advanced.basic(pairs), sum(count * mp.mpf(epsilon) for epsilon, count in pairs), mp.mpf("2e-13")
    )
    assert basic_and_advanced.optimised([(699.0, 1)], 0.5) < math.inf
    assert basic_and_advanced.optimised([(701.0, 1)], 0.5) == math.inf


@pytest.mark.parametrize("rate", [1.0, 0.05])
def test_splits_of_delta(rate: float) -> None:
    """Every release gets the same share; the best of the splits, none far from the best of all."""
    delta, counts = 1e-5, (30, 50)

    def part(scale: float, count: int) -> basic_and_advanced.Part:
        return basic_and_advanced.Part(
            rate, lambda d: scale * math.sqrt(2 * math.log(1 / d)) if d > 0 else math.inf, count
        )

    parts = [part(0.02, counts[0]), part(0.05, counts[1])]

    def pairs(total: float) -> list[tuple[float, int]]:
        each = min(total / 80 / rate, 0.5)
        epsilons = [scale * math.sqrt(2 * math.log(1 / each)) for scale in (0.02, 0.05)]
        return [(math.log1p(rate * math.expm1(eps)), count) for eps, count in zip(epsilons, counts, strict=True)]

    def advanced(share: float) -> float:
        spread = sum(count * epsilon**2 for epsilon, count in pairs(delta * share))
        drift = sum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in pairs(delta * share))
        return math.sqrt(-2 * math.log(delta * (1 - share)) * spread) + drift

    basic = sum(epsilon * count for epsilon, count in pairs(delta))
    assert basic_and_advanced.by_basic(parts, delta) == pytest.approx(basic, rel=1e-12)
    best = min(basic, *(advanced(k / 1000) for k in range(1, 1000)))
    assert best * (1 - 1e-9) <= basic_and_advanced.by_advanced(parts, delta) <= best * 1.002
    pure = [basic_and_advanced.Part(1.0, lambda _: 0.01, 1000)]
    exact = math.sqrt(2 * math.log(1e5) * 1000) * 0.01 + 10 * math.tanh(0.005)
    assert basic_and_advanced.by_advanced(pure, 1e-5) == pytest.approx(exact, rel=1e-12)


def test_the_shares_of_delta_add_up_to_no_more_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, over all splits: what the releases get and the slack; nothing goes to releases that need none."""
    delta, count = 1e-5, 77
    shares, slacks = [], []

    def epsilon(share: float) -> float:
        shares.append(Fraction(share))
        return 0.01

    def optimised(_pairs: object, slack: float) -> float:
        slacks.append(Fraction(slack))
        return 1.0

    monkeypatch.setattr(basic_and_advanced, "optimised", optimised)
    basic_and_advanced.by_advanced([basic_and_advanced.Part(1.0, epsilon, count)], delta)
    assert shares[0] * count <= Fraction(delta)  # basic composition, without slack
    assert len(shares) - 1 == len(slacks) > 20
    for share, slack in zip(shares[1:], slacks, strict=True):
        assert Fraction(delta) * (1 - Fraction(1, 10**12)) <= share * count + slack <= Fraction(delta)
    assert shares[1] == 0


# Published figures


def test_published_zcdp_figures_are_the_formulas() -> None:
    parts = [(0.01, 4.0, 300), (0.002, 2.0, 5000)]
    log = math.log(1e5)
    rho = 0.01 * 300 / 32 + 0.002 * 5000 / 8
    assert paper_figures.zcdp_rf(parts, 1e-5) == pytest.approx(rho + 2 * math.sqrt(rho * log), rel=1e-12)
    rho, top = 300 * (0.01 / 4) ** 2 + 5000 * (0.002 / 2) ** 2, 4 * math.log(1 / 0.004) + 1
    assert top < 16 * math.log(1 / 0.04) + 1
    assert math.sqrt(log / rho) > top - 1
    assert paper_figures.zcdp_rs(parts, 1e-5) == pytest.approx(rho * top + log / (top - 1), rel=1e-12)
    many = [(0.01, 4.0, 300_000)]
    rho = 300_000 * (0.01 / 4) ** 2
    assert paper_figures.zcdp_rs(many, 1e-5) == pytest.approx(rho + 2 * math.sqrt(rho * log), rel=1e-12)
    rho, top = 675 * (0.01 / 4) ** 2, 16 * math.log(1 / 0.04) + 1
    assert top - 1 < math.sqrt(log / rho) < top  # just beyond the last order
    assert paper_figures.zcdp_rs([(0.01, 4.0, 675)], 1e-5) == pytest.approx(rho * top + log / (top - 1), rel=1e-12)
    assert paper_figures.zcdp_rs([(1 / 16, 1.0, 10)], 1e-5) > 0
    for rate, noise in [(0.0626, 1.0), (0.001, 0.999), (0.033, 2.0)]:
        with pytest.raises(InputError, match="zcdp-rs was checked"):
            paper_figures.zcdp_rs([(rate, noise, 10)], 1e-5)


def test_published_strong_composition_is_the_formula() -> None:
    rate, noise, steps, delta = 0.02, 5.0, 700, 1e-6

    def at(share: float) -> float:
        before = delta * share / steps / rate
        epsilon = math.log1p(rate * math.expm1(math.sqrt(2 * math.log(1.25 / before)) / noise))
        spread = math.sqrt(2 * steps * math.log(1 / (delta * (1 - share)))) * epsilon
        return spread + steps * epsilon * math.expm1(epsilon)

    best = min(at(k / 2000) for k in range(1, 2000))
    assert paper_figures.strong([(rate, noise, steps)], delta) == pytest.approx(best, rel=1e-4)
    two = paper_figures.strong([(rate, noise, steps // 2), (rate, noise, steps - steps // 2)], delta)
    assert two == pytest.approx(best, rel=1e-4)
    assert paper_figures.strong([(1.0, 1e-3, 10)], delta) == math.inf
    # A share of delta beyond 1 after sampling is cut off, not refused.
    assert paper_figures.strong([(1e-7, 5.0, 3)], 1e-2) < math.inf


def test_published_dropout_is_the_formula() -> None:
    noise, passes, rate, delta, share = 7.0, 200, 0.01, 1e-4, 0.3
    step_delta = delta * (1 - share) / (passes * rate)
    step = math.log1p(rate * math.expm1(math.sqrt(2 * math.log(1.25 / step_delta)) / noise))
    exact = math.sqrt(2 * passes * math.log(1 / (share * delta))) * step + passes * step**2
    assert paper_figures.dropout_advanced(noise, passes, rate, delta, share) == pytest.approx(exact, rel=1e-12)
    assert paper_figures.dropout_advanced(1e-3, passes, rate, delta) == math.inf
    assert paper_figures.dropout_advanced(noise, passes, rate, delta) == paper_figures.dropout_advanced(
        noise, passes, rate, delta, 0.5
    )


def test_published_filter_is_the_formula() -> None:
    orders = paper_figures.LECUYER_ORDERS
    assert (len(orders), orders[:2], orders[-3:]) == (38, (1.25, 1.5), (10.0, 16, 32))
    budget = filter_curve(3.0, 1e-5)
    assert list(budget) == list(orders)
    assert budget[16] == pytest.approx(3 - math.log(1e5) / 15)
    spent = dict.fromkeys(orders, 1.0)
    assert filter_admits(spent, {**dict.fromkeys(orders, 9.0), 32: budget[32] - 1.0}, budget)
    assert not filter_admits(spent, {**dict.fromkeys(orders, 9.0), 32: budget[32] - 0.999}, budget)
    with pytest.raises(InputError, match="delta"):
        filter_curve(3.0, 0.0)
    with pytest.raises(InputError, match="epsilon"):
        filter_curve(-3.0, 1e-5)


# Schedules


def test_a_polynomial_may_end_anywhere_between_zero_and_its_start() -> None:
    assert parse("polynomial:initial=10,rate=2,end=0.5,period=4").multiplier(2) == pytest.approx(0.5 + 9.5 / 4)
    for end in ("10", "11"):
        with pytest.raises(InputError, match="less than initial"):
            parse(f"polynomial:initial=10,rate=2,end={end},period=4")


def test_a_step_schedule_must_fall() -> None:
    with pytest.raises(InputError, match="less than 1"):
        parse("step:initial=10,rate=1,period=3")


def test_budget_of_a_uniform_schedule_is_forgiven_a_billionth() -> None:
    assert epochs_within(parse("uniform:initial=8"), 100 / 128) == 100
    assert epochs_within(parse("uniform:initial=8"), 100 / 128 * (1 - 1e-10)) == 100
    assert epochs_within(parse("uniform:initial=8"), 100 / 128 * (1 - 1e-8)) == 99
    falling = parse("exponential:initial=8,rate=0.1")
    total = falling.rho(20)
    assert epochs_within(falling, total * (1 - 1e-10)) == 20
    assert epochs_within(falling, total * (1 - 1e-8)) == 19
    assert total == pytest.approx(sum(math.exp(0.2 * t) / 128 for t in range(20)), rel=1e-12)
    vanishing = Schedule(falling.kind, 8.0, 50.0)
    assert epochs_within(vanishing, 1e300) in (7, 8)


@pytest.mark.parametrize(("epochs", "budget", "digits"), [(40, 0.9, 4), (3000, 300.0, 7), (6000, 300.0, 8)])
def test_finer_grids_are_tried_where_no_coarser_one_will_do(epochs: int, budget: float, digits: int) -> None:
    found = solve_rate(parse("exponential:initial=10"), lambda schedule, count: schedule.rho(count) <= budget, epochs)
    assert found.rate is not None
    assert found.rho(epochs) <= budget < found.rho(epochs + 1)
    assert found.rate == pytest.approx(round(found.rate, digits), rel=1e-9)
    assert found.rate != pytest.approx(round(found.rate, digits - 1), rel=1e-9)


@pytest.mark.parametrize("text", ["time:initial=10", "exponential:initial=10", "step:initial=10,period=7"])
def test_a_found_rate_is_a_multiple_of_the_grid_and_the_smallest(text: str) -> None:
    def fits(schedule: Schedule, epochs: int) -> bool:
        return schedule.rho(epochs) <= 0.9

    found = solve_rate(parse(text), fits, 40)
    assert found.rate is not None
    tick = found.rate * 1e4
    assert tick == pytest.approx(round(tick), abs=1e-6)
    rates = (k * 1e-4 for k in range(1, 10_000))
    works = [rate for rate in rates if epochs_within(Schedule(found.kind, 10.0, rate, found.period), 0.9) == 40]
    assert found.rate == pytest.approx(min(works), rel=1e-9)
