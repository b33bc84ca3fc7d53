"""The bound of Steinke et al. 2023: against sums of binomial probabilities in mpmath, and mechanisms that reach it."""

import mpmath
import numpy as np
import pytest

from discreet.audit.bounds import epsilon_delta


def in_digits(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The theorem as it is written, with forty digits."""
    with mpmath.workdps(40):
        chance = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        law = [mpmath.binomial(guesses, k) * chance**k * (1 - chance) ** (guesses - k) for k in range(guesses + 1)]

        def tail(count: int) -> mpmath.mpf:
            return mpmath.fsum(law[max(0, count) :])

        gain = max((tail(right - i) - tail(right)) / i for i in range(1, canaries + 1))
        return float(min(1, tail(right) + 2 * canaries * mpmath.mpf(delta) * gain))


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5, 1e-3])
@pytest.mark.parametrize(("right", "guesses", "canaries"), [(8, 10, 40), (55, 60, 100), (140, 200, 200)])
def test_it_is_what_the_theorem_says_rounded_up(right: int, guesses: int, canaries: int, delta: float) -> None:
    for epsilon in (0.0, 0.5, 2.0):
        exact = in_digits(right, guesses, canaries, epsilon, delta)
        found = epsilon_delta.p_value(right, guesses, canaries, epsilon, delta)
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-5) + 1e-290


def test_randomised_response_reaches_it() -> None:
    epsilon, guesses = 1.0, 30
    chance = np.exp(epsilon) / (1 + np.exp(epsilon))
    law = np.array([1.0])
    for _ in range(guesses):
        law = np.convolve(law, [1 - chance, chance])
    for right in (15, 22, 30):
        found = epsilon_delta.p_value(right, guesses, 100, epsilon, 0.0)
        assert found == pytest.approx(law[right:].sum(), rel=1e-8)


def test_full_disclosure_now_and_then_keeps_it() -> None:
    share = 0.01
    assert epsilon_delta.p_value(20, 20, 20, 0.0, share) >= share + (1 - share) * 2.0**-20


def test_the_epsilon_that_is_refuted_is_the_largest_one() -> None:
    found = epsilon_delta.epsilon_bound(170, 200, 1000, 1e-5, 0.05)
    assert found > 1
    assert epsilon_delta.p_value(170, 200, 1000, found, 1e-5) <= 0.05
    assert epsilon_delta.p_value(170, 200, 1000, found + 1e-4, 1e-5) > 0.05
    assert epsilon_delta.epsilon_bound(100, 200, 1000, 1e-5, 0.05) == 0.0


def test_what_makes_no_sense_refutes_nothing() -> None:
    for counts in ((0, 10, 20), (11, 10, 20), (10, 30, 20)):
        assert epsilon_delta.p_value(*counts, 1.0, 1e-5) == 1.0
    assert epsilon_delta.p_value(10, 10, 20, float("nan"), 1e-5) == 1.0
    assert epsilon_delta.epsilon_bound(10, 10, 20, float("nan"), 0.05) == 0.0
