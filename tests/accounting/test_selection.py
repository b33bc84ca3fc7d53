"""Searches with random stopping, against exact enumeration of toy mechanisms and dp-accounting."""

import math
from functools import partial

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.polynomial import polyval
from scipy.special import logsumexp, ndtr

from discreet.accounting.account import Method, guarantee
from discreet.accounting.theories import rdp, selection
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import BoundedRange, Compose, Event, Gaussian, NoisyMax, Poisson, Repeat, Selection
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, Trials, trials_from_json, trials_to_json

Distribution = np.ndarray
LAWS: list[Trials] = [
    NegativeBinomialTrials(1.0, 0.1),
    NegativeBinomialTrials(0.0, 0.02),
    NegativeBinomialTrials(-0.5, 0.01),
    NegativeBinomialTrials(2.5, 0.3),
    PoissonTrials(0.4),
    PoissonTrials(8.0),
]
WITH_LAWS = pytest.mark.parametrize("trials", LAWS, ids=str)


def probabilities(trials: Trials, most: int = 3000) -> Distribution:
    """P(K = k) for k = 0 .. most, straight from the definitions."""
    k = np.arange(1, most + 1)
    if isinstance(trials, PoissonTrials):
        logs = np.concatenate([[0.0], np.cumsum(math.log(trials.mean) - np.log(k))]) - trials.mean
        return np.exp(logs)
    eta, gamma = trials.shape, trials.success
    if eta == 0:
        masses = (1 - gamma) ** k / (k * math.log(1 / gamma))
    else:
        product = np.cumprod((k - 1 + eta) / k)
        masses = (1 - gamma) ** k / (gamma**-eta - 1) * product
    return np.concatenate([[0.0], masses])


def best_of(trial: Distribution, trials: Trials) -> Distribution:
    """The law of the best of K, outcomes ordered from worst to best; the last entry is "nothing chosen"."""
    masses = probabilities(trials)
    below = np.concatenate([[0.0], np.cumsum(trial)])
    generated = polyval(np.minimum(below, 1.0), masses)  # the mean of below^K
    return np.concatenate([np.diff(generated), [masses[0]]])


def hockey_stick(p: Distribution, q: Distribution, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def gaussian_pair(noise: float, bins: int = 120) -> tuple[Distribution, Distribution]:
    """A Gaussian release and its neighbour, rounded to bins (post-processing), lowest first."""
    edges = np.linspace(-4 * noise, 4 * noise + 1, bins)
    p, q = (np.diff(np.concatenate([[0.0], ndtr((edges - shift) / noise), [1.0]])) for shift in (0.0, 1.0))
    return p, q


@WITH_LAWS
def test_the_law_sums_to_one_and_has_the_stated_mean(trials: Trials) -> None:
    masses = probabilities(trials)
    assert masses.sum() == pytest.approx(1, abs=1e-9)
    assert masses @ np.arange(len(masses)) == pytest.approx(trials.mean, rel=1e-9)


@pytest.mark.parametrize("method", [Method.RDP, Method.PLD])
def test_a_search_that_hardly_repeats_costs_no_less_than_its_trial(method: Method) -> None:
    """One trial but for a chance of 1e-20; a mean that was below 1 made it cheaper than that trial."""
    trials, trial = NegativeBinomialTrials(-1 + 2**-40, 0.9999999896462883), Repeat(Gaussian(20.0), 100)
    assert trials.mean >= 1
    assert guarantee(Selection(trial, trials), 1e-5, method=method).epsilon >= guarantee(trial, 1e-5).epsilon


@settings(max_examples=40, derandomize=True)
@given(st.lists(st.tuples(st.floats(0.05, 1), st.floats(0, 1)), min_size=2, max_size=7), st.floats(0.05, 2), st.data())
def test_no_pure_toy_mechanism_costs_more_than_the_theorems_say(
    cells: list[tuple[float, float]], epsilon: float, data: st.DataObject
) -> None:
    """Random epsilon-private mechanisms of a few outcomes in a random order, enumerated exactly, both directions."""
    trials = data.draw(st.sampled_from(LAWS))
    # P = a e^u, Q = a up to a constant, u in [0, epsilon] after normalising within a factor e^epsilon in all.
    q = np.array([a for a, _ in cells])
    p = q * np.exp(np.array([u for _, u in cells]) * epsilon / 2)
    p, q = p / p.sum(), q / q.sum()
    assert np.abs(np.log(p / q)).max() <= epsilon
    event = Selection(NoisyMax(epsilon), trials)
    pair = best_of(p, trials), best_of(q, trials)
    check(event, pair, 1e-4)
    whole = guarantee(event, 1e-12, method=Method.BASIC).epsilon
    assert max(np.abs(np.log(pair[0][pair[1] > 0] / pair[1][pair[1] > 0]))) <= whole + 1e-9


def check(event: Selection, pair: tuple[Distribution, Distribution], delta: float) -> float:
    """Every theorem holds for this pair of laws of the search; returns the least bound."""
    bounds = []
    for method in (Method.PLD, Method.RDP, Method.BASIC, Method.ADVANCED):
        bound = guarantee(event, delta, method=method).epsilon
        bounds.append(bound)
        assert hockey_stick(*pair, bound) <= delta
        assert hockey_stick(*pair[::-1], bound) <= delta
    return min(bounds)


@WITH_LAWS
@pytest.mark.parametrize("noise", [0.8, 3.0])
def test_a_search_over_gaussian_trials_enumerated(trials: Trials, noise: float) -> None:
    """The score is the release itself, and the best the highest (or the lowest): the bounds hold, the price of one
    trial does not cover the search, and the profile bound is the better one of this kind at this delta."""
    event, delta = Selection(Gaussian(noise), trials), 1e-5
    p, q = gaussian_pair(noise)
    highest, lowest = (best_of(p, trials), best_of(q, trials)), (best_of(p[::-1], trials), best_of(q[::-1], trials))
    least = max(check(event, highest, delta), check(event, lowest, delta))
    one = guarantee(Gaussian(noise), delta).epsilon
    assert one < least or trials.mean < 1
    assert guarantee(event, delta).epsilon <= guarantee(event, delta, method=Method.RDP).epsilon
    if trials.mean > 5:
        pairs = [highest, highest[::-1], lowest, lowest[::-1]]
        assert max(hockey_stick(*pair, one) for pair in pairs) > delta, "one trial's price would do"


def rare(leak: float, ratio: float, top: bool) -> tuple[Distribution, Distribution]:
    """One rare outcome, `ratio` times as likely under P as under Q, above or below 400 that are nearly alike."""
    p, q = (np.concatenate([np.full(400, (1 - mass) / 400), [mass]]) for mass in (leak, leak / ratio))
    return (p, q) if top else (p[::-1], q[::-1])


def exact_profile(p: Distribution, q: Distribution) -> selection.Profile:
    """delta -> the least epsilon of this pair, both directions, rounded up a little: delta is the largest
    P(S) - e^epsilon Q(S), and the sets S that matter are those of the outcomes with the largest ratios."""
    sides = []
    for one, other in ((p, q), (q, p)):
        order = np.argsort(other / one)
        sides.append((np.cumsum(one[order]), np.cumsum(other[order])))

    def at(delta: float) -> float:
        found = (np.log(np.maximum(above - delta, 1e-300) / below).max() for above, below in sides)
        return max(0.0, *found) + 1e-12

    assert max(hockey_stick(p, q, at(0.01)), hockey_stick(q, p, at(0.01))) <= 0.01
    return at


@WITH_LAWS
@pytest.mark.parametrize("delta", [0.2, 0.02, 1e-3])
@pytest.mark.parametrize(
    "pair", [rare(0.05, 1e6, True), rare(0.05, 1e6, False), rare(1e-3, 1e9, True), rare(0.3, 20.0, True)]
)
def test_the_profile_bound_on_trials_with_a_rare_outcome(
    pair: tuple[Distribution, Distribution], delta: float, trials: Trials
) -> None:
    """Where the theorem is nearly tight, given the exact profile of a trial."""
    bound = selection.epsilon(exact_profile(*pair), trials, delta)
    best = [best_of(one, trials) for one in pair]
    assert max(hockey_stick(*best, bound), hockey_stick(*best[::-1], bound)) <= delta


def log_derivative(trials: Trials, x: Distribution) -> Distribution:
    """log f'(x) = log of the sum of k P(K = k) x^(k - 1), term by term."""
    masses = probabilities(trials)
    k = np.arange(1, len(masses))
    return np.log(polyval(x, k * masses[1:]))


@WITH_LAWS
@pytest.mark.parametrize(
    "pair",
    [rare(0.05, 1e6, True), rare(1e-3, 1e9, True), rare(0.3, 20.0, True), gaussian_pair(1.0), gaussian_pair(9.0)],
)
def test_the_ratio_of_derivatives_is_bounded_and_nearly_reached(
    pair: tuple[Distribution, Distribution], trials: Trials
) -> None:
    bound = selection.log_ratio(exact_profile(*pair), trials)
    worse = [np.minimum(np.concatenate([[0.0], np.cumsum(one)]), 1.0) for one in pair]
    p, q = (log_derivative(trials, x) for x in worse)
    reached = float(np.abs(p - q).max())
    assert reached <= bound + 1e-9
    assert bound < 4.5 * reached


@WITH_LAWS
@pytest.mark.parametrize("order", [1.5, 3.0, 12.0])
def test_renyi_theorems_hold_at_every_order(trials: Trials, order: float) -> None:
    p, q = gaussian_pair(2.0)
    curve = selection.rdp_curve(lambda orders: rdp.gaussian(2.0, orders), trials)
    bound = float(curve([order])[0])
    for one, other in ((p, q), (q, p), (p[::-1], q[::-1]), (q[::-1], p[::-1])):
        a, b = best_of(one, trials), best_of(other, trials)
        keep = (a > 0) & (b > 0)
        found = logsumexp(order * np.log(a[keep]) + (1 - order) * np.log(b[keep])) / (order - 1)
        assert found <= bound + 1e-9


def test_the_poisson_bound_needs_the_outcome_of_no_trial() -> None:
    """As printed, without it, the bound is below the divergence that is enumerated for a mean of 0.4."""
    trials, order = PoissonTrials(0.4), 3.0
    trial = partial(rdp.gaussian, 2.0)
    delta = rdp.delta_upper(trial, math.log(order / (order - 1)))
    printed = float(trial([order])[0]) + trials.mean * delta + math.log(trials.mean) / (order - 1)
    a, b = (best_of(one, trials) for one in gaussian_pair(2.0))
    found = logsumexp(order * np.log(a) + (1 - order) * np.log(b)) / (order - 1)
    assert printed < found <= selection.rdp_curve(trial, trials)([order])[0]


@pytest.mark.parametrize(
    ("trials", "shape"),
    [(LAWS[0], 1.0), (LAWS[1], 0.0), (LAWS[3], 2.5), (LAWS[5], math.inf)],
    ids=str,
)
@pytest.mark.parametrize("inner", [(1.0, 3.0, 1), (0.01, 1.0, 500)])
def test_renyi_against_dp_accounting(trials: Trials, shape: float, inner: tuple[float, float, int]) -> None:
    rate, noise, count = inner
    orders = [1 + k / 10 for k in range(1, 100)] + list(range(11, 65)) + [128, 256, 512, 1024]
    theirs = RdpAccountant(orders)
    step: dp_event.DpEvent = dp_event.GaussianDpEvent(noise)
    step = dp_event.PoissonSampledDpEvent(rate, step) if rate < 1 else step
    theirs.compose(dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(step, count), trials.mean, shape))
    ours = guarantee(Selection(Repeat(Poisson(rate, Gaussian(noise)), count), trials), 1e-6, method=Method.RDP).epsilon
    assert ours == pytest.approx(theirs.get_epsilon(1e-6), rel=0.01)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_pure_statements(epsilon: float) -> None:
    """At most Liu and Talwar's 3 epsilon for the geometric law, and Papernot and Steinke's (2 + eta) epsilon."""
    for shape in (-0.5, 0.0, 1.0, 3.0):
        event = Selection(NoisyMax(epsilon), NegativeBinomialTrials(shape, 0.01))
        found = guarantee(event, 1e-14, method=Method.BASIC).epsilon
        assert found <= (2 + shape) * epsilon + 1e-9
        assert found >= epsilon


def test_a_search_composes_and_nests() -> None:
    trials = NegativeBinomialTrials(1, 0.1)
    search = Selection(Compose((Gaussian(4.0), BoundedRange(0.2))), trials)
    both = Compose((search, Gaussian(3.0)))
    alone = guarantee(search, 1e-5, method=Method.RDP).epsilon
    assert alone < guarantee(both, 1e-5, method=Method.RDP).epsilon < alone + guarantee(Gaussian(3.0), 1e-5).epsilon
    nested = guarantee(Selection(search, PoissonTrials(3)), 1e-5, method=Method.RDP).epsilon
    assert alone < nested < math.inf
    twice = Selection(Selection(Gaussian(4.0), trials), PoissonTrials(3))
    assert guarantee(twice.event, 1e-5).epsilon < guarantee(twice, 1e-5).epsilon < math.inf
    replaced = guarantee(Selection(Gaussian(4.0), trials), 1e-5, Adjacency.REPLACE_ONE).epsilon
    assert replaced == pytest.approx(guarantee(Selection(Gaussian(2.0), trials), 1e-5).epsilon, rel=1e-9)


@pytest.mark.parametrize("event", [Compose((Gaussian(1.0),)), Repeat(Compose(()), 1)])
def test_what_no_theorem_covers_is_refused_and_says_what_can_be_had(event: Event) -> None:
    search = Selection(Gaussian(2.0), PoissonTrials(5))
    for bad in (Compose((search, event, Gaussian(1.0))), Repeat(search, 2)):
        with pytest.raises(NotProved, match="use method rdp, basic or advanced"):
            guarantee(bad, 1e-5)
    for method in (Method.ZCDP, Method.GDP):
        with pytest.raises(NotProved, match="use method rdp"):
            guarantee(search, 1e-5, method=method)
    with pytest.raises(NotProved, match="Selection inside Poisson"):
        guarantee(Poisson(0.1, search), 1e-5, method=Method.RDP)
    assert guarantee(Poisson(0.1, search), 1e-5, method=Method.BASIC).epsilon < math.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NegativeBinomialTrials(-1, 0.1), "shape must be"),
        (lambda: NegativeBinomialTrials(math.nan, 0.1), "shape must be"),
        (lambda: NegativeBinomialTrials(math.inf, 0.1), "shape must be"),
        (lambda: NegativeBinomialTrials(1, 1.0), "success must be"),
        (lambda: PoissonTrials(0), "mean must be"),
        (lambda: Selection(Gaussian(1.0), 5), "law of K"),
        (lambda: trials_from_json({"law": "uniform"}), "unknown law of trials 'uniform'"),
        (lambda: trials_from_json({"law": "poisson", "mean": 1.0, "x": 2}), "unknown law"),
        (lambda: trials_from_json(None), "unknown law"),
    ],
)
def test_bad_laws(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


@WITH_LAWS
def test_laws_round_trip(trials: Trials) -> None:
    assert trials_from_json(trials_to_json(trials)) == trials
