"""Laws of events and accountants, over every registered event, method and adjacency."""

import json
import math
from typing import NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting import theories as table
from discreet.accounting.account import PROVING, Method, account, guarantee
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError, NotProved
from discreet.core.event_json import _DECODERS, from_json, to_json
from discreet.core.events import (
    Allocation,
    BoundedRange,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Sampled,
    Selection,
    TruncatedPoisson,
    tally,
)
from discreet.core.guarantee import Guarantee
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials

DELTA = 1e-5
GEOMETRIC = NegativeBinomialTrials(1.0, 0.1)
SLOW = settings(max_examples=12, deadline=None, derandomize=True)
FAST = settings(max_examples=100, deadline=None, derandomize=True)

noises = st.floats(math.log(0.5), math.log(20)).map(math.exp)
rates = st.floats(math.log(1e-3), 0).map(math.exp)
gaussians = st.builds(Gaussian, noises, st.sampled_from(Query))
inner = st.one_of(gaussians, st.lists(gaussians, min_size=1, max_size=3).map(lambda e: Compose(tuple(e))))
laplaces = st.builds(Laplace, noises, st.sampled_from(Query))

epsilons = noises.map(lambda noise: 1 / noise)
choices = st.one_of(*(st.builds(kind, epsilons, st.sampled_from(Query)) for kind in (BoundedRange, NoisyMax)))
trials = st.one_of(
    st.builds(NegativeBinomialTrials, st.floats(-0.5, 2), st.floats(0.01, 0.5)),
    st.builds(PoissonTrials, st.floats(0.5, 20)),
)

SIZE_PRIVATE = {Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT}
ALL = set(Adjacency)
# Under which adjacencies each sampler has a theorem, and whether its rate amplifies. All samplers must be here.
SAMPLERS: dict[type, tuple[set[Adjacency], bool]] = {
    Poisson: (SIZE_PRIVATE, True),
    TruncatedPoisson: (SIZE_PRIVATE, True),
    FixedSize: ({Adjacency.REPLACE_ONE}, True),
    Epoch: ({Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE}, False),
    Allocation: (ALL, False),
}


def draw(sampler: type, rate: float, event: Event) -> Event:
    """A draw by `sampler` of about this rate, rounded down to a whole share where it must be; unsampled for rate 1."""
    whole = max(1, math.ceil(1 / rate))
    if sampler is TruncatedPoisson:
        return TruncatedPoisson(rate, 990, 1000, event)
    if sampler is FixedSize:
        return FixedSize(whole, 1, event)
    if sampler is Epoch:
        return Epoch(Repeat(event, whole))
    return Allocation(whole, 1, event) if sampler is Allocation else Poisson(rate, event)


NONE: set[type] = set()
PLAIN = {sampler for sampler, (_, amplifies) in SAMPLERS.items() if not amplifies}
POISSON: set[type] = PLAIN | {Poisson, TruncatedPoisson}
EVERY = set(SAMPLERS)


class Takes(NamedTuple):
    """Around what a theory takes each kind of event, None where it takes none, not even unsampled."""

    gaussian: set[type]
    laplace: set[type] | None
    choice: set[type] | None
    search: set[type] | None


# A theory that is registered must be here. (Searches by pld must be alone: see below.)
THEORIES: dict[Method, Takes] = {
    Method.PLD: Takes(EVERY, None, POISSON, None),
    Method.RDP: Takes(EVERY, PLAIN, PLAIN, NONE),
    Method.GDP: Takes(PLAIN, None, None, None),
    Method.ZCDP: Takes(PLAIN, PLAIN, PLAIN, None),
    Method.ADVANCED: Takes(EVERY, EVERY, EVERY, {Poisson}),
    Method.BASIC: Takes(EVERY, EVERY, EVERY, {Poisson}),
}


def searches(adjacency: Adjacency) -> st.SearchStrategy[Event]:
    """Over what Rényi bounds and the classic theorems have; truncated batches are refused in trials."""
    samplers = [
        sampler for sampler in SAMPLERS if sampler is not TruncatedPoisson and adjacency in SAMPLERS[sampler][0]
    ]
    trial = st.one_of(inner, choices, *(st.builds(draw, st.just(sampler), rates, inner) for sampler in samplers))
    return st.builds(Selection, trial, trials)


def leaves(method: Method, adjacency: Adjacency) -> st.SearchStrategy[Event]:
    """Whatever the theory takes under the adjacency: none of it may be refused."""
    kinds = dict(zip(Takes._fields, (inner, laplaces, choices, searches(adjacency)), strict=True))
    found: list[st.SearchStrategy[Event]] = []
    for kind, around in THEORIES[method]._asdict().items():
        if around is not None:
            found.append(gaussians if kind == "gaussian" else kinds[kind])
            for sampler in SAMPLERS:  # in a fixed order, unlike the set
                if sampler in around and adjacency in SAMPLERS[sampler][0]:
                    found.append(st.builds(draw, st.just(sampler), rates, kinds[kind]))
    return st.one_of(found)


def nested(parts: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    return st.recursive(
        parts,
        lambda child: st.one_of(
            st.builds(Repeat, child, st.integers(1, 6)),
            st.lists(child, max_size=3).map(lambda parts: Compose(tuple(parts))),
        ),
        max_leaves=4,
    )


events = st.sampled_from(Adjacency).flatmap(lambda adjacency: nested(leaves(Method.BASIC, adjacency)))
adjacencies = st.sampled_from(Adjacency)
over_methods = pytest.mark.parametrize("method", PROVING)


def prove(event: Event, theory: tuple[Method, Adjacency], delta: float = DELTA) -> Guarantee:
    """The guarantee, which must exist."""
    method, adjacency = theory
    return guarantee(event, delta, adjacency, method)


def lower(found: Guarantee) -> float:
    return 0.0 if found.lower is None else found.lower


def same(one: Guarantee, other: Guarantee) -> None:
    """Two statements about equal things do not contradict each other, and are near."""
    assert lower(one) <= other.epsilon
    assert lower(other) <= one.epsilon
    assert one.epsilon == pytest.approx(other.epsilon, rel=0.006, abs=2e-4)


def test_everything_registered_is_here() -> None:
    assert set(get_args(Event)) == {Gaussian, Laplace, BoundedRange, NoisyMax, Selection, Repeat, Compose, *SAMPLERS}
    assert set(get_args(Sampled)) == set(SAMPLERS)
    assert set(_DECODERS) == {from_name["event"] for from_name in map(to_json, ONE_OF_EACH)}
    assert {type(event) for event in ONE_OF_EACH} == set(get_args(Event))
    assert set(PROVING) == {Method(name) for name in table.PROVERS} == set(THEORIES)
    kinds = [set(table.PROVERS), set(table.ESTIMATORS), set(table.REPEATERS)]
    assert sum(map(len, kinds)) == len(Method)
    assert set().union(*kinds) == set(Method) == set(table.WHY)
    assert set(table.SOURCES) == set(table.REPEATERS)


@over_methods
@SLOW
@given(st.data(), st.integers(1, 9), adjacencies)
def test_composition_is_repetition(method: Method, data: st.DataObject, count: int, adjacency: Adjacency) -> None:
    event, theory = data.draw(leaves(method, adjacency)), (method, adjacency)
    repeated = prove(Repeat(event, count), theory)
    same(prove(Compose((event,) * count), theory), repeated)
    same(prove(Repeat(Compose((event, event)), count), theory), prove(Repeat(event, 2 * count), theory))
    wrapped = Compose((Compose((Repeat(event, count),)), Compose(())))
    assert prove(wrapped, theory) == repeated


@over_methods
@SLOW
@given(st.data(), adjacencies)
def test_order_does_not_matter(method: Method, data: st.DataObject, adjacency: Adjacency) -> None:
    parts, theory = data.draw(st.lists(leaves(method, adjacency), min_size=2, max_size=3)), (method, adjacency)
    same(prove(Compose(tuple(parts)), theory), prove(Compose(tuple(reversed(parts))), theory))


def samplers_of(method: Method) -> list[tuple[type, Adjacency]]:
    return [
        (sampler, adjacency)
        for sampler, (where, _) in SAMPLERS.items()
        for adjacency in Adjacency
        if adjacency in where and sampler in THEORIES[method].gaussian
    ]


@over_methods
@SLOW
@given(st.data(), rates, noises, st.integers(1, 300), st.floats(1.001, 2))
def test_monotone(method: Method, data: st.DataObject, rate: float, noise: float, steps: int, factor: float) -> None:
    """More noise, fewer steps, a larger delta or a lower rate cost no more."""
    sampler, adjacency = data.draw(st.sampled_from(samplers_of(method)))
    theory = (method, adjacency)
    here = prove(Repeat(draw(sampler, rate, Gaussian(noise)), steps), theory)
    cheaper = [
        prove(Repeat(draw(sampler, rate, Gaussian(noise * factor)), steps), theory),
        prove(Repeat(draw(sampler, rate, Gaussian(noise)), max(1, int(steps / factor))), theory),
        prove(Repeat(draw(sampler, rate, Gaussian(noise)), steps), theory, DELTA * factor),
        prove(Repeat(draw(sampler, rate / factor, Gaussian(noise)), steps), theory),
    ]
    assert all(lower(other) <= here.epsilon for other in cheaper)
    assert all(other.epsilon <= here.epsilon * 1.006 + 2e-4 for other in cheaper)


@over_methods
@SLOW
@given(st.data(), noises, st.integers(1, 50), rates)
def test_unequal_multipliers_that_are_nearly_equal(
    method: Method, data: st.DataObject, noise: float, count: int, rate: float
) -> None:
    """Two parts whose multipliers differ in the last digit are two rows of the tally and cost what one would."""
    sampler, adjacency = data.draw(st.sampled_from(samplers_of(method)))
    one = draw(sampler, rate, Gaussian(noise))
    other = draw(sampler, rate, Gaussian(math.nextafter(noise, math.inf)))
    split, theory = Compose((Repeat(one, count), Repeat(other, count))), (method, adjacency)
    assert len(tally(split)) == 2
    same(prove(split, theory), prove(Repeat(one, 2 * count), theory))


@over_methods
@SLOW
@given(st.data(), noises, noises)
def test_queries_of_one_draw_are_one_gaussian(method: Method, data: st.DataObject, one: float, two: float) -> None:
    joint = (one**-2 + two**-2) ** -0.5
    sampler, adjacency = data.draw(st.sampled_from(samplers_of(method)))
    for rate in (0.05, 1.0):
        both = draw(sampler, rate, Compose((Gaussian(one), Gaussian(two))))
        single = draw(sampler, rate, Gaussian(joint))
        same(prove(Repeat(both, 10), (method, adjacency)), prove(Repeat(single, 10), (method, adjacency)))


@settings(SLOW, max_examples=40)
@given(st.data(), adjacencies, st.sampled_from([1e-3, 1e-5, 1e-9]))
def test_theories_do_not_contradict_each_other(data: st.DataObject, adjacency: Adjacency, delta: float) -> None:
    event = data.draw(nested(leaves(Method.BASIC, adjacency)))
    found = []
    for method in PROVING:
        try:
            found.append(guarantee(event, delta, adjacency, method))
        except NotProved:
            assert method not in (Method.ADVANCED, Method.BASIC)
    truncated = any(isinstance(part, TruncatedPoisson) for part in tally(event))
    for one in found:
        assert (one.kind, one.adjacency) == ("guarantee", adjacency)
        assert 0 <= lower(one) <= one.epsilon
        assert one.epsilon < math.inf or truncated
        assert all(lower(one) <= other.epsilon for other in found)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("sampler", list(SAMPLERS))
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_where_a_sampler_has_no_theorem_it_says_what_to_use(
    sampler: type, method: Method, adjacency: Adjacency
) -> None:
    """The other side of the table: whatever it does not list is refused, by every method, published ones included."""
    if adjacency in SAMPLERS[sampler][0]:
        return
    for inside in (Gaussian(2.0), Laplace(2.0), NoisyMax(0.5), BoundedRange(0.5), Selection(Gaussian(2.0), GEOMETRIC)):
        event = draw(sampler, 0.05, inside)
        with pytest.raises(NotProved, match=r"use adjacency .*, or "):
            account(event, DELTA, adjacency, method)
        with pytest.raises(NotProved, match=r"use adjacency .*, or "):
            account(Compose((Gaussian(1.0), event)), DELTA, adjacency, method)


KINDS: dict[str, tuple[Event, ...]] = {
    "gaussian": (Gaussian(2.0),),
    "laplace": (Laplace(2.0),),
    "choice": (NoisyMax(0.5), BoundedRange(0.5)),
    "search": (Selection(Gaussian(2.0), GEOMETRIC),),
}


@over_methods
@pytest.mark.parametrize("sampler", list(SAMPLERS))
@pytest.mark.parametrize("kind", list(KINDS))
def test_what_a_theory_does_not_take_is_refused_and_named(kind: str, sampler: type, method: Method) -> None:
    """Of the samplers and kinds that are not in the table, none slips through by another path."""
    around = getattr(THEORIES[method], kind)
    for inside in KINDS[kind]:
        for adjacency in SAMPLERS[sampler][0]:
            event = draw(sampler, 0.05, inside)
            if around is not None and sampler in around:
                assert guarantee(event, DELTA, adjacency, method).epsilon < math.inf
            else:
                with pytest.raises(NotProved, match=r"use method|only .* can be sampled"):
                    guarantee(event, DELTA, adjacency, method)


@over_methods
def test_searches(method: Method) -> None:
    """Alone by pld; beside others by what the table says; truncated batches never in a trial."""
    search = Selection(Gaussian(2.0), GEOMETRIC)
    beside = Compose((search, Gaussian(5.0)))
    if method is Method.PLD:
        assert guarantee(search, DELTA, method=method).epsilon > guarantee(Gaussian(2.0), DELTA).epsilon
    if THEORIES[method].search is None:
        with pytest.raises(NotProved, match="does not account for Selection"):
            guarantee(beside, DELTA, method=method)
    else:
        alone = guarantee(search, DELTA, method=method).epsilon
        assert alone < guarantee(beside, DELTA, method=method).epsilon < math.inf
    truncated = Selection(TruncatedPoisson(0.01, 990, 1000, Gaussian(2.0)), GEOMETRIC)
    with pytest.raises(NotProved, match="TruncatedPoisson inside Selection"):
        guarantee(truncated, DELTA, method=method)


@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_draws_inside_draws_are_refused(sampler: type) -> None:
    adjacency = next(iter(SAMPLERS[sampler][0]))
    for inside in SAMPLERS:
        with pytest.raises(NotProved, match=f"{inside.__name__} inside {sampler.__name__} is not accounted for"):
            guarantee(draw(sampler, 0.1, draw(inside, 0.1, Gaussian(1.0))), DELTA, adjacency)
    with pytest.raises(NotProved, match="around nothing"):
        guarantee(draw(sampler, 0.1, Compose(())), DELTA, adjacency)
    with pytest.raises(NotProved, match=f"on one {sampler.__name__} draw"):
        guarantee(draw(sampler, 0.1, Compose((Gaussian(1.0), Laplace(1.0)))), DELTA, adjacency)
    with pytest.raises(NotProved, match=f"Gaussian and NoisyMax queries on one {sampler.__name__} draw"):
        guarantee(draw(sampler, 0.1, Compose((Gaussian(1.0), NoisyMax(1.0)))), DELTA, adjacency)


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
    (
        TruncatedPoisson(0.01, 900, 60000, Gaussian(1.0)),
        '{"event": "truncated_poisson", "rate": 0.01, "capacity": 900, "population": 60000, '
        '"of": {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}}',
    ),
    (
        FixedSize(60000, 600, Gaussian(1.0)),
        '{"event": "fixed_size", "population": 60000, "batch": 600, '
        '"of": {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}}',
    ),
    (
        Epoch(Repeat(Gaussian(1.0), 100)),
        '{"event": "epoch", "of": {"event": "repeat", "count": 100, '
        '"of": {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}}}',
    ),
    (
        Allocation(100, 2, Gaussian(1.0)),
        '{"event": "allocation", "steps": 100, "chosen": 2, '
        '"of": {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}}',
    ),
]
ONE_OF_EACH = [event for event, _ in FROZEN]


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
    if method not in (Method.ZCDP_RS, Method.ADADP):
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
