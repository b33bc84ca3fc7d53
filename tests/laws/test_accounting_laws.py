"""Laws of events and accountants, over every registered event, method and adjacency."""

import math
from typing import get_args

import pytest
from drawn_events import (
    DELTA,
    GEOMETRIC,
    SAMPLERS,
    SLOW,
    THEORIES,
    adjacencies,
    draw,
    leaves,
    nested,
    noises,
    rates,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting import reasons, theory_table
from discreet.accounting.account import PROVING, Method, account, guarantee
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import (
    BoundedRange,
    Compose,
    Event,
    Gaussian,
    Individual,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Sampled,
    Selection,
    SparseHistogram,
    TruncatedPoisson,
    tally,
)
from discreet.core.guarantee import Guarantee

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
    unsampled = {Gaussian, Individual, Laplace, BoundedRange, NoisyMax, SparseHistogram, Selection}
    assert set(get_args(Event)) == {*unsampled, Repeat, Compose, *SAMPLERS}
    assert set(get_args(Sampled)) == set(SAMPLERS)
    assert set(PROVING) == {Method(name) for name in theory_table.PROVERS} == set(THEORIES)
    kinds = [set(theory_table.PROVERS), set(theory_table.ESTIMATORS), set(theory_table.REPEATERS)]
    assert sum(map(len, kinds)) == len(Method)
    assert set().union(*kinds) == set(Method) == set(reasons.WHY)
    assert set(reasons.SOURCES) == set(theory_table.REPEATERS)


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
@settings(SLOW, max_examples=8)
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
    if method not in (Method.ZCDP_RS, Method.ADADP, Method.DROPOUT_AC, Method.DROPOUT_ZCDP):
        assert account(Poisson(1.0, Gaussian(1.0)), DELTA, Adjacency.REPLACE_ONE, method).epsilon < math.inf


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf, True, "1e-5", None])
def test_deltas_that_are_none(delta: object) -> None:
    with pytest.raises(InputError, match="delta"):
        guarantee(Gaussian(1.0), delta)  # type: ignore[arg-type]


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(InputError, match="unknown method 'magic'; known: pld, rdp, gdp"):
        guarantee(Gaussian(1.0), DELTA, method="magic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown adjacency 'swap'; known: add_remove, zero_out, replace_one"):
        guarantee(Gaussian(1.0), DELTA, "swap")  # type: ignore[arg-type]
