"""Laws of events and accountants, over every registered event, method and adjacency."""

import json
import math
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.accounting.account import _PROVERS, Method, guarantee
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError, NotProved
from discreet.core.events import (
    _DECODERS,
    Compose,
    Event,
    Gaussian,
    Poisson,
    Repeat,
    from_json,
    tally,
    to_json,
)
from discreet.core.guarantee import Guarantee

DELTA = 1e-5
SLOW = settings(max_examples=12, deadline=None, derandomize=True)
FAST = settings(max_examples=100, deadline=None, derandomize=True)

noises = st.floats(math.log(0.5), math.log(20)).map(math.exp)
gaussians = st.builds(Gaussian, noises, st.sampled_from(Query))
inner = st.one_of(gaussians, st.lists(gaussians, min_size=1, max_size=3).map(lambda e: Compose(tuple(e))))
poissons = st.builds(Poisson, st.floats(math.log(1e-3), 0).map(math.exp), inner)
leaves = st.one_of(gaussians, poissons)
events = st.recursive(
    leaves,
    lambda child: st.one_of(
        st.builds(Repeat, child, st.integers(1, 6)),
        st.lists(child, max_size=3).map(lambda parts: Compose(tuple(parts))),
    ),
    max_leaves=4,
)
theories = st.tuples(st.sampled_from(Method), st.sampled_from(Adjacency))


def prove(event: Event, theory: tuple[Method, Adjacency], delta: float = DELTA) -> Guarantee:
    """The guarantee, or a rejected example where none is proved."""
    method, adjacency = theory
    try:
        return guarantee(event, delta, adjacency, method)
    except NotProved:
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
    assert set(get_args(Event)) == {Gaussian, Poisson, Repeat, Compose}
    assert set(_DECODERS) == {"gaussian", "poisson", "repeat", "compose"}
    assert set(_PROVERS) == set(Method)


@SLOW
@given(leaves, st.integers(1, 9), theories)
def test_composition_is_repetition(event: Event, count: int, theory: tuple[Method, Adjacency]) -> None:
    repeated = prove(Repeat(event, count), theory)
    same(prove(Compose((event,) * count), theory), repeated)
    same(prove(Repeat(Compose((event, event)), count), theory), prove(Repeat(event, 2 * count), theory))
    nested = Compose((Compose((Repeat(event, count),)), Compose(())))
    assert prove(nested, theory) == repeated


@SLOW
@given(st.lists(leaves, min_size=2, max_size=3), theories)
def test_order_does_not_matter(parts: list[Event], theory: tuple[Method, Adjacency]) -> None:
    same(prove(Compose(tuple(parts)), theory), prove(Compose(tuple(reversed(parts))), theory))


@SLOW
@given(st.floats(math.log(1e-3), 0).map(math.exp), noises, st.integers(1, 300), theories, st.floats(1.001, 2))
def test_monotone(rate: float, noise: float, steps: int, theory: tuple[Method, Adjacency], factor: float) -> None:
    here = prove(Repeat(Poisson(rate, Gaussian(noise)), steps), theory)
    cheaper = [
        prove(Repeat(Poisson(rate, Gaussian(noise * factor)), steps), theory),
        prove(Repeat(Poisson(rate, Gaussian(noise)), max(1, int(steps / factor))), theory),
        prove(Repeat(Poisson(rate, Gaussian(noise)), steps), theory, DELTA * factor),
    ]
    if theory[1] is not Adjacency.REPLACE_ONE:
        cheaper.append(prove(Repeat(Poisson(rate / factor, Gaussian(noise)), steps), theory))
    assert all(lower(other) <= here.epsilon for other in cheaper)
    assert all(other.epsilon <= here.epsilon * 1.006 + 2e-4 for other in cheaper)


@SLOW
@given(noises, st.integers(1, 50), st.floats(1e-3, 1), theories)
def test_unequal_multipliers_that_are_nearly_equal(
    noise: float, count: int, rate: float, theory: tuple[Method, Adjacency]
) -> None:
    """Two parts whose multipliers differ in the last digit are two rows of the tally and cost what one would."""
    other = math.nextafter(noise, math.inf)
    split = Compose((Repeat(Poisson(rate, Gaussian(noise)), count), Repeat(Poisson(rate, Gaussian(other)), count)))
    assert len(tally(split)) == 2
    same(prove(split, theory), prove(Repeat(Poisson(rate, Gaussian(noise)), 2 * count), theory))


@SLOW
@given(noises, noises, theories)
def test_queries_of_one_draw_are_one_gaussian(one: float, two: float, theory: tuple[Method, Adjacency]) -> None:
    joint = (one**-2 + two**-2) ** -0.5
    for rate in (0.05, 1.0):
        if rate < 1 and theory[1] is Adjacency.REPLACE_ONE:
            continue
        both = prove(Repeat(Poisson(rate, Compose((Gaussian(one), Gaussian(two)))), 10), theory)
        same(both, prove(Repeat(Poisson(rate, Gaussian(joint)), 10), theory))


@SLOW
@given(events, st.sampled_from(Adjacency), st.sampled_from([1e-3, 1e-5, 1e-9]))
def test_theories_do_not_contradict_each_other(event: Event, adjacency: Adjacency, delta: float) -> None:
    pld, rdp = (prove(event, (method, adjacency), delta) for method in (Method.PLD, Method.RDP))
    assert pld.lower is not None
    assert 0 <= pld.lower <= pld.epsilon < math.inf
    assert pld.lower <= rdp.epsilon < math.inf
    assert pld.kind == rdp.kind == "guarantee"
    assert pld.adjacency is adjacency


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("event", [Compose(()), Repeat(Compose(()), 5), Compose((Compose(()), Repeat(Compose(()), 2)))])
def test_nothing_released_costs_nothing(event: Event, method: Method, adjacency: Adjacency) -> None:
    found = guarantee(event, DELTA, adjacency, method)
    assert (found.epsilon, found.lower) == (0.0, 0.0)


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
]


@pytest.mark.parametrize(("event", "text"), FROZEN)
def test_published_form_is_frozen(event: Event, text: str) -> None:
    assert json.dumps(to_json(event)) == text
    assert from_json(json.loads(text)) == event


@pytest.mark.parametrize("method", list(Method))
def test_what_is_not_proved_is_refused_and_says_what_can_be_had(method: Method) -> None:
    with pytest.raises(NotProved, match=r"add_remove or zero_out.*no sampling"):
        guarantee(Poisson(0.1, Gaussian(1.0)), DELTA, Adjacency.REPLACE_ONE, method)
    with pytest.raises(NotProved, match=r"Poisson inside Poisson.*only Gaussian events"):
        guarantee(Poisson(0.1, Poisson(0.1, Gaussian(1.0))), DELTA, method=method)
    with pytest.raises(NotProved, match="around nothing"):
        guarantee(Poisson(0.1, Compose(())), DELTA, method=method)
    assert guarantee(Poisson(1.0, Gaussian(1.0)), DELTA, Adjacency.REPLACE_ONE, method).is_finite


@pytest.mark.parametrize(("query", "ratio"), list(zip(Query, [2.0, 2.0, math.sqrt(2), 1.0], strict=True)))
def test_replace_one_ratios(query: Query, ratio: float) -> None:
    """Clipped sum 2, centred bit 2, covariance sqrt 2, count 1."""
    replaced = guarantee(Gaussian(3.0, query), DELTA, Adjacency.REPLACE_ONE)
    assert replaced.epsilon == pytest.approx(guarantee(Gaussian(3.0 / ratio), DELTA).epsilon, rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf, True, "1e-5", None])
def test_deltas_that_are_none(delta: object) -> None:
    with pytest.raises(InputError, match="delta"):
        guarantee(Gaussian(1.0), delta)  # type: ignore[arg-type]


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(InputError, match="unknown method 'gdp'; known: pld, rdp"):
        guarantee(Gaussian(1.0), DELTA, method="gdp")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown adjacency 'swap'; known: add_remove, zero_out, replace_one"):
        guarantee(Gaussian(1.0), DELTA, "swap")  # type: ignore[arg-type]
