"""Laws of events and accountants, over every registered event, method and adjacency."""

import json
import math
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.accounting import theories as table
from discreet.accounting.account import PROVING, Method, account, guarantee
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError, NotProved
from discreet.core.events import (
    _DECODERS,
    BoundedRange,
    Compose,
    Event,
    Gaussian,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Selection,
    from_json,
    tally,
    to_json,
)
from discreet.core.guarantee import Guarantee
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials

DELTA = 1e-5
SLOW = settings(max_examples=12, deadline=None, derandomize=True)
FAST = settings(max_examples=100, deadline=None, derandomize=True)

noises = st.floats(math.log(0.5), math.log(20)).map(math.exp)
gaussians = st.builds(Gaussian, noises, st.sampled_from(Query))
inner = st.one_of(gaussians, st.lists(gaussians, min_size=1, max_size=3).map(lambda e: Compose(tuple(e))))
poissons = st.builds(Poisson, st.floats(math.log(1e-3), 0).map(math.exp), inner)
laplaces = st.builds(Laplace, noises, st.sampled_from(Query))
sampled_laplaces = st.builds(Poisson, st.floats(math.log(1e-3), 0).map(math.exp), laplaces)

epsilons = noises.map(lambda noise: 1 / noise)
choices = st.one_of(*(st.builds(kind, epsilons, st.sampled_from(Query)) for kind in (BoundedRange, NoisyMax)))
sampled_choices = st.builds(Poisson, st.floats(math.log(1e-3), 0).map(math.exp), choices)
trials = st.one_of(
    st.builds(NegativeBinomialTrials, st.floats(-0.5, 2), st.floats(0.01, 0.5)),
    st.builds(PoissonTrials, st.floats(0.5, 20)),
)
selections = st.builds(Selection, st.one_of(gaussians, poissons, choices), trials)

# What each theory takes. A theory that is registered must be here.
LEAVES: dict[Method, st.SearchStrategy[Event]] = {
    Method.PLD: st.one_of(gaussians, poissons, choices, sampled_choices),
    Method.RDP: st.one_of(gaussians, poissons, laplaces, choices, selections),
    Method.GDP: gaussians,
    Method.ZCDP: st.one_of(gaussians, laplaces, choices),
    Method.ADVANCED: st.one_of(gaussians, poissons, laplaces, sampled_laplaces, choices, sampled_choices, selections),
    Method.BASIC: st.one_of(gaussians, poissons, laplaces, sampled_laplaces, choices, sampled_choices, selections),
}
SAMPLING = {Method.PLD, Method.RDP, Method.ADVANCED, Method.BASIC}
leaves = LEAVES[Method.BASIC]
events = st.recursive(
    leaves,
    lambda child: st.one_of(
        st.builds(Repeat, child, st.integers(1, 6)),
        st.lists(child, max_size=3).map(lambda parts: Compose(tuple(parts))),
    ),
    max_leaves=4,
)
adjacencies = st.sampled_from(Adjacency)
over_methods = pytest.mark.parametrize("method", PROVING)


def prove(event: Event, theory: tuple[Method, Adjacency], delta: float = DELTA) -> Guarantee:
    """The guarantee, or a rejected example where none is proved (Poisson sampling under replace_one)."""
    method, adjacency = theory
    try:
        return guarantee(event, delta, adjacency, method)
    except NotProved:
        assert adjacency is Adjacency.REPLACE_ONE
        assume(False)
        raise


def lower(found: Guarantee) -> float:
    return 0.0 if found.lower is None else found.lower


def same(one: Guarantee, other: Guarantee) -> None:
    """Two statements about equal things do not contradict each other, and are near."""
    assert lower(one) <= other.epsilon
    assert lower(other) <= one.epsilon
    assert one.epsilon == pytest.approx(other.epsilon, rel=0.006, abs=2e-4)


def test_everything_registered_is_here() -> None:
    assert set(get_args(Event)) == {
        Gaussian,
        Laplace,
        BoundedRange,
        NoisyMax,
        Selection,
        Poisson,
        Repeat,
        Compose,
    }
    assert set(_DECODERS) == {
        "gaussian",
        "laplace",
        "bounded_range",
        "noisy_max",
        "selection",
        "poisson",
        "repeat",
        "compose",
    }
    assert set(PROVING) == {Method(name) for name in table.PROVERS} == set(LEAVES)
    kinds = [set(table.PROVERS), set(table.ESTIMATORS), set(table.REPEATERS)]
    assert sum(map(len, kinds)) == len(Method)
    assert set().union(*kinds) == set(Method) == set(table.WHY)
    assert set(table.SOURCES) == set(table.REPEATERS)


@over_methods
@SLOW
@given(st.data(), st.integers(1, 9), adjacencies)
def test_composition_is_repetition(method: Method, data: st.DataObject, count: int, adjacency: Adjacency) -> None:
    event, theory = data.draw(LEAVES[method]), (method, adjacency)
    repeated = prove(Repeat(event, count), theory)
    same(prove(Compose((event,) * count), theory), repeated)
    same(prove(Repeat(Compose((event, event)), count), theory), prove(Repeat(event, 2 * count), theory))
    nested = Compose((Compose((Repeat(event, count),)), Compose(())))
    assert prove(nested, theory) == repeated


@over_methods
@SLOW
@given(st.data(), adjacencies)
def test_order_does_not_matter(method: Method, data: st.DataObject, adjacency: Adjacency) -> None:
    parts, theory = data.draw(st.lists(LEAVES[method], min_size=2, max_size=3)), (method, adjacency)
    same(prove(Compose(tuple(parts)), theory), prove(Compose(tuple(reversed(parts))), theory))


@over_methods
@SLOW
@given(st.floats(math.log(1e-3), 0).map(math.exp), noises, st.integers(1, 300), adjacencies, st.floats(1.001, 2))
def test_monotone(method: Method, rate: float, noise: float, steps: int, adjacency: Adjacency, factor: float) -> None:
    theory = (method, adjacency)
    rate = rate if method in SAMPLING else 1.0
    here = prove(Repeat(Poisson(rate, Gaussian(noise)), steps), theory)
    cheaper = [
        prove(Repeat(Poisson(rate, Gaussian(noise * factor)), steps), theory),
        prove(Repeat(Poisson(rate, Gaussian(noise)), max(1, int(steps / factor))), theory),
        prove(Repeat(Poisson(rate, Gaussian(noise)), steps), theory, DELTA * factor),
    ]
    if adjacency is not Adjacency.REPLACE_ONE and method in SAMPLING:
        cheaper.append(prove(Repeat(Poisson(rate / factor, Gaussian(noise)), steps), theory))
    assert all(lower(other) <= here.epsilon for other in cheaper)
    assert all(other.epsilon <= here.epsilon * 1.006 + 2e-4 for other in cheaper)


@over_methods
@SLOW
@given(noises, st.integers(1, 50), st.floats(1e-3, 1), adjacencies)
def test_unequal_multipliers_that_are_nearly_equal(
    method: Method, noise: float, count: int, rate: float, adjacency: Adjacency
) -> None:
    """Two parts whose multipliers differ in the last digit are two rows of the tally and cost what one would."""
    other, theory = math.nextafter(noise, math.inf), (method, adjacency)
    rate = rate if method in SAMPLING else 1.0
    split = Compose((Repeat(Poisson(rate, Gaussian(noise)), count), Repeat(Poisson(rate, Gaussian(other)), count)))
    assert len(tally(split)) == 2
    same(prove(split, theory), prove(Repeat(Poisson(rate, Gaussian(noise)), 2 * count), theory))


@over_methods
@SLOW
@given(noises, noises, adjacencies)
def test_queries_of_one_draw_are_one_gaussian(method: Method, one: float, two: float, adjacency: Adjacency) -> None:
    joint, theory = (one**-2 + two**-2) ** -0.5, (method, adjacency)
    for rate in (0.05, 1.0):
        if rate < 1 and (adjacency is Adjacency.REPLACE_ONE or method not in SAMPLING):
            continue
        both = prove(Repeat(Poisson(rate, Compose((Gaussian(one), Gaussian(two)))), 10), theory)
        same(both, prove(Repeat(Poisson(rate, Gaussian(joint)), 10), theory))


@settings(SLOW, max_examples=40)
@given(events, adjacencies, st.sampled_from([1e-3, 1e-5, 1e-9]))
def test_theories_do_not_contradict_each_other(event: Event, adjacency: Adjacency, delta: float) -> None:
    found = []
    for method in PROVING:
        try:
            found.append(guarantee(event, delta, adjacency, method))
        except NotProved:
            assert method not in (Method.ADVANCED, Method.BASIC) or adjacency is Adjacency.REPLACE_ONE
    for one in found:
        assert (one.kind, one.adjacency) == ("guarantee", adjacency)
        assert 0 <= lower(one) <= one.epsilon < math.inf
        assert all(lower(one) <= other.epsilon for other in found)


@pytest.mark.parametrize("method", [method for method in Method if not method.proves])
def test_what_does_not_prove_never_certifies(method: Method) -> None:
    event = Repeat(Poisson(0.01, Gaussian(2.0)), 100)
    found = account(event, DELTA, method=method)
    assert not isinstance(found, Guarantee)
    assert found.kind in ("estimate", "as_published")
    assert found.reason == method.why
    assert 0 < found.epsilon < math.inf
    with pytest.raises(NotProved, match=f"{method.value} proves nothing; use one of pld, rdp"):
        guarantee(event, DELTA, method=method)
    with pytest.raises(NotProved, match=r"Laplace; use method rdp|without sampling use|Laplace inside Poisson"):
        account(Poisson(0.01, Laplace(1.0)), DELTA, method=method)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("event", [Compose(()), Repeat(Compose(()), 5), Compose((Compose(()), Repeat(Compose(()), 2)))])
def test_nothing_released_costs_nothing(event: Event, method: Method, adjacency: Adjacency) -> None:
    found = account(event, DELTA, adjacency, method)
    assert found.epsilon == 0.0
    assert not isinstance(found, Guarantee) or found.lower == 0.0


@FAST
@given(events)
def test_json_round_trip(event: Event) -> None:
    back = from_json(json.loads(json.dumps(to_json(event), allow_nan=False)))
    assert back == event
    assert hash(back) == hash(event)
    assert to_json(back) == to_json(event)


# Published: certificates and ledgers hold these texts. An entry is never changed, only added.
FROZEN = [
    (
        Gaussian(1.5),
        '{"event": "gaussian", "noise_multiplier": 1.5, "query": "clipped_sum"}',
    ),
    (Gaussian(2, Query.CENTRED_BIT), '{"event": "gaussian", "noise_multiplier": 2.0, "query": "centred_bit"}'),
    (Gaussian(4.0, Query.COVARIANCE), '{"event": "gaussian", "noise_multiplier": 4.0, "query": "covariance"}'),
    (Gaussian(1e2, Query.COUNT), '{"event": "gaussian", "noise_multiplier": 100.0, "query": "count"}'),
    (
        Poisson(0.01, Gaussian(1.0)),
        '{"event": "poisson", "rate": 0.01, '
        '"of": {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}}',
    ),
    (
        Repeat(Compose((Gaussian(1.0),)), 3),
        '{"event": "repeat", "count": 3, "of": {"event": "compose", '
        '"of": [{"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}]}}',
    ),
    (Compose(()), '{"event": "compose", "of": []}'),
    (Laplace(2.5), '{"event": "laplace", "scale_multiplier": 2.5, "query": "clipped_sum"}'),
    (Laplace(3, Query.COUNT), '{"event": "laplace", "scale_multiplier": 3.0, "query": "count"}'),
    (Gaussian(2.0, Query.HISTOGRAM), '{"event": "gaussian", "noise_multiplier": 2.0, "query": "histogram"}'),
    (BoundedRange(0.5), '{"event": "bounded_range", "epsilon": 0.5, "query": "clipped_sum"}'),
    (NoisyMax(0.5, Query.COUNT), '{"event": "noisy_max", "epsilon": 0.5, "query": "count"}'),
    (
        Selection(Laplace(2.0), NegativeBinomialTrials(0, 0.1)),
        '{"event": "selection", "of": {"event": "laplace", "scale_multiplier": 2.0, "query": "clipped_sum"}, '
        '"trials": {"law": "truncated_negative_binomial", "shape": 0.0, "success": 0.1}}',
    ),
    (
        Selection(Laplace(2.0), PoissonTrials(7)),
        '{"event": "selection", "of": {"event": "laplace", "scale_multiplier": 2.0, "query": "clipped_sum"}, '
        '"trials": {"law": "poisson", "mean": 7.0}}',
    ),
]


@pytest.mark.parametrize(("event", "text"), FROZEN)
def test_published_form_is_frozen(event: Event, text: str) -> None:
    assert json.dumps(to_json(event)) == text
    assert from_json(json.loads(text)) == event


@pytest.mark.parametrize("method", list(Method))
def test_what_is_not_proved_is_refused_and_says_what_can_be_had(method: Method) -> None:
    with pytest.raises(NotProved, match=r"add_remove or zero_out.*no sampling"):
        account(Poisson(0.1, Gaussian(1.0)), DELTA, Adjacency.REPLACE_ONE, method)
    with pytest.raises(NotProved, match=r"Poisson inside Poisson.*only Gaussian events"):
        account(Poisson(0.1, Poisson(0.1, Gaussian(1.0))), DELTA, method=method)
    with pytest.raises(NotProved, match="around nothing"):
        account(Poisson(0.1, Compose(())), DELTA, method=method)
    with pytest.raises(NotProved, match="Gaussian and Laplace queries on one Poisson draw"):
        account(Poisson(0.1, Compose((Gaussian(1.0), Laplace(1.0)))), DELTA, method=method)
    if method is not Method.ZCDP_RS:
        assert account(Poisson(1.0, Gaussian(1.0)), DELTA, Adjacency.REPLACE_ONE, method).epsilon < math.inf


@pytest.mark.parametrize(("query", "ratio"), list(zip(Query, [2.0, 2.0, math.sqrt(2), 1.0, math.sqrt(2)], strict=True)))
def test_replace_one_ratios(query: Query, ratio: float) -> None:
    """Clipped sum 2, centred bit 2, covariance sqrt 2, count 1, histogram sqrt 2."""
    replaced = guarantee(Gaussian(3.0, query), DELTA, Adjacency.REPLACE_ONE)
    assert replaced.epsilon == pytest.approx(guarantee(Gaussian(3.0 / ratio), DELTA).epsilon, rel=1e-9)


@pytest.mark.parametrize(("query", "ratio"), list(zip(Query, [2.0, 2.0, 2.0, 1.0, 2.0], strict=True)))
def test_replace_one_ratios_in_l1(query: Query, ratio: float) -> None:
    """As in L2, but for covariance and histogram: the triangle inequality gives 2."""
    replaced = guarantee(Laplace(3.0, query), DELTA, Adjacency.REPLACE_ONE, Method.BASIC)
    assert replaced.epsilon == pytest.approx(ratio / 3.0, rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf, True, "1e-5", None])
def test_deltas_that_are_none(delta: object) -> None:
    with pytest.raises(InputError, match="delta"):
        guarantee(Gaussian(1.0), delta)  # type: ignore[arg-type]


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(InputError, match="unknown method 'magic'; known: pld, rdp, gdp"):
        guarantee(Gaussian(1.0), DELTA, method="magic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown adjacency 'swap'; known: add_remove, zero_out, replace_one"):
        guarantee(Gaussian(1.0), DELTA, "swap")  # type: ignore[arg-type]
