"""The verifier's bound for the best of K runs, against exact attacks and against the trainer's accountant."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from discreet import guarantee
from discreet.core.errors import InputError
from discreet.core.events import Selection
from discreet.core.events.event_json import from_json
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, Trials, trials_from_json, trials_to_json
from discreet.verification.recompute.random_stopping import decide_search, law_of, search_bound

LAWS = [
    NegativeBinomialTrials(1.0, 0.1),
    NegativeBinomialTrials(0.0, 0.05),
    NegativeBinomialTrials(-0.5, 0.02),
    NegativeBinomialTrials(3.0, 0.4),
    PoissonTrials(0.7),
    PoissonTrials(12.0),
]
GAUSSIAN = {"event": "gaussian", "noise_multiplier": 2.0, "query": "clipped_sum"}
SAMPLED = {"event": "repeat", "count": 30, "of": {"event": "poisson", "rate": 0.1, "of": GAUSSIAN}}


def slope(trials: Trials, x: np.ndarray) -> np.ndarray:
    """f'(x) of f(x) = E[x^K], differentiated by hand from the closed forms of Papernot and Steinke (2022)."""
    if isinstance(trials, PoissonTrials):
        return trials.mean * np.exp(-trials.mean * (1 - x))
    eta, gamma = trials.shape, trials.success
    if eta == 0:  # f(x) = log(1 - (1 - gamma) x) / log(gamma)
        return (1 - gamma) / (1 - (1 - gamma) * x) / -math.log(gamma)
    # f(x) = ((1 - (1 - gamma) x)^-eta - 1) / (gamma^-eta - 1)
    return eta * (1 - gamma) * (1 - (1 - gamma) * x) ** (-eta - 1) / (gamma**-eta - 1)


def attack(trials: Trials, mu: float, epsilon: float) -> float:
    """The delta of "release the highest of K noisy values" at epsilon, both directions, by quadrature.

    One run is N(0, 1) or, with the unit, N(mu, 1); its score is the value, or its negative. Nothing is lost if K = 0
    gives nothing: both neighbours have that with one probability.
    """
    z, step = np.linspace(-12, 12 + mu, 200_001, retstep=True)
    found = []
    for sign in (1, -1):
        with_unit, without = (
            slope(trials, ndtr(sign * (z - shift))) * np.exp(-((z - shift) ** 2) / 2) / math.sqrt(2 * math.pi)
            for shift in (mu, 0.0)
        )
        for p, q in ((with_unit, without), (without, with_unit)):
            found.append(float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * step))
    return max(found)


@pytest.mark.parametrize("trials", LAWS, ids=str)
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_no_attack_on_a_gaussian_exceeds_it(trials: Trials, delta: float) -> None:
    """The bound holds where the truth is known from below; the price of one run does not, if there are several."""
    bound = search_bound(GAUSSIAN, law_of(trials_to_json(trials)), delta, "add_remove", 1e-5)
    assert attack(trials, 0.5, bound) <= delta
    one = guarantee(from_json(GAUSSIAN), delta).epsilon
    if trials.mean > 2:
        assert attack(trials, 0.5, one) > delta


@pytest.mark.parametrize(
    ("trials", "events"), [*((trials, GAUSSIAN) for trials in LAWS), (LAWS[0], SAMPLED), (LAWS[5], SAMPLED)], ids=str
)
def test_it_agrees_with_the_trainer(trials: Trials, events: dict[str, Any]) -> None:
    """Two programs and one theorem: the claims of the trainer are a bit above, as they must be to be confirmed."""
    claim = guarantee(Selection(from_json(events), trials), 1e-5).epsilon * (1 + 5e-4)
    found = search_bound(events, law_of(trials_to_json(trials)), 1e-5, "add_remove", 5e-5 * claim)
    assert found <= claim <= 1.01 * found


@pytest.mark.parametrize(
    ("trials", "noise"),
    [
        *(
            (NegativeBinomialTrials(1.0, success), noise)
            for success in (0.3, 0.7, 0.8, 0.97)
            for noise in (0.8, 3.0, 15.0)
        ),
        *((NegativeBinomialTrials(0.0, success), noise) for success in (0.5, 0.7, 0.97) for noise in (1.0, 8.0)),
        (NegativeBinomialTrials(5.0, 0.9), 3.0),
        (NegativeBinomialTrials(50.0, 0.9), 8.0),
        *((PoissonTrials(mean), noise) for mean in (1.25, 30.0) for noise in (2.0, 8.6)),
    ],
    ids=str,
)
def test_claims_of_searches_with_few_runs_and_much_noise_are_accepted(trials: Trials, noise: float) -> None:
    """The claim of the trainer is found again, within what it leaves for that, however the search for it converges."""
    steps = {"event": "repeat", "count": 50, "of": {"event": "poisson", "rate": 0.05, "of": GAUSSIAN}}
    steps["of"]["of"] = GAUSSIAN | {"noise_multiplier": noise}
    claim = guarantee(Selection(from_json(steps), trials), 1e-5).epsilon * (1 + 5e-4)
    assert decide_search(steps, trials_to_json(trials), 1e-5, "add_remove", claim).accepted
    assert not decide_search(steps, trials_to_json(trials), 1e-5, "add_remove", 0.99 * claim).accepted


def test_claims_are_accepted_down_to_the_bound_and_no_further() -> None:
    trials = trials_to_json(LAWS[0])
    bound = decide_search(GAUSSIAN, trials, 1e-5, "add_remove", 1.0).bounds.upper
    assert decide_search(GAUSSIAN, trials, 1e-5, "add_remove", 1.001 * bound).accepted
    refused = decide_search(GAUSSIAN, trials, 1e-5, "add_remove", 0.999 * bound)
    assert not refused.accepted
    assert "not supported" in refused.reason


@pytest.mark.parametrize(
    "trials",
    [
        None,
        {"law": "poisson"},
        {"law": "poisson", "mean": -1.0},
        {"law": "poisson", "mean": math.nan},
        {"law": "poisson", "mean": 1.0, "more": 1},
        {"law": "truncated_negative_binomial", "shape": -1.0, "success": 0.5},
        {"law": "truncated_negative_binomial", "shape": 1.0, "success": 1.0},
        {"law": "truncated_negative_binomial", "shape": 1.0, "success": True},
        {"law": "truncated_negative_binomial", "shape": True, "success": 0.5},
        {"law": "truncated_negative_binomial", "shape": "1", "success": 0.5},
        {"law": "truncated_negative_binomial", "shape": math.inf, "success": 0.5},
        {"law": "fixed", "mean": 3},
    ],
)
def test_what_is_no_law_is_refused(trials: Any) -> None:
    with pytest.raises(InputError):
        law_of(trials)


@pytest.mark.parametrize("trials", LAWS, ids=str)
def test_the_mean_is_rounded_up(trials: Trials) -> None:
    assert trials_from_json(trials_to_json(trials)).mean <= law_of(trials_to_json(trials)).mean * (1 + 1e-15)


def test_the_mean_of_hardly_more_than_one_trial() -> None:
    assert law_of({"law": "truncated_negative_binomial", "shape": -0.5, "success": 0.9999999896462883}).mean >= 1
