"""Laws of events as they are published, and of the ratios by which replacing a unit moves a query."""

import json
import math
from typing import get_args

import pytest
from drawn_events import DELTA, FAST, events
from hypothesis import given

from discreet.accounting.account import Method, guarantee
from discreet.core.adjacency import Adjacency, Query
from discreet.core.events import (
    KINDS,
    Allocation,
    BoundedRange,
    Compose,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Individual,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Selection,
    SparseHistogram,
    TruncatedPoisson,
)
from discreet.core.events.event_json import from_json, to_json
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials


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
    (SparseHistogram(10, 62), '{"event": "sparse_histogram", "noise_multiplier": 10.0, "threshold": 62.0}'),
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
        CyclicPoisson(8, 0.08, Gaussian(1.0)),
        '{"event": "cyclic_poisson", "parts": 8, "rate": 0.08, '
        '"of": {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}}',
    ),
    (
        Individual(200, 50, Gaussian(9.0)),
        '{"event": "individual", "steps": 200, "full": 50, '
        '"of": {"event": "gaussian", "noise_multiplier": 9.0, "query": "clipped_sum"}}',
    ),
    (
        Allocation(100, 2, Gaussian(1.0)),
        '{"event": "allocation", "steps": 100, "chosen": 2, '
        '"of": {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}}',
    ),
]


def test_every_event_has_a_published_form() -> None:
    kinds = [event for event, _ in FROZEN]
    assert set(KINDS) == {to_json(event)["event"] for event in kinds}
    assert {type(event) for event in kinds} == set(get_args(Event))


@pytest.mark.parametrize(("event", "text"), FROZEN)
def test_published_form_is_frozen(event: Event, text: str) -> None:
    assert json.dumps(to_json(event)) == text
    assert from_json(json.loads(text)) == event


@pytest.mark.parametrize(
    ("query", "ratio"), list(zip(Query, [2.0, 2.0, math.sqrt(2), 1.0, math.sqrt(2), 2.0], strict=True))
)
def test_replace_one_ratios(query: Query, ratio: float) -> None:
    """Clipped sum 2, centred bit 2, covariance sqrt 2, count 1, histogram sqrt 2, loss 2."""
    replaced = guarantee(Gaussian(3.0, query), DELTA, Adjacency.REPLACE_ONE)
    assert replaced.epsilon == pytest.approx(guarantee(Gaussian(3.0 / ratio), DELTA).epsilon, rel=1e-9)


@pytest.mark.parametrize(("query", "ratio"), list(zip(Query, [2.0, 2.0, 2.0, 1.0, 2.0, 2.0], strict=True)))
def test_replace_one_ratios_in_l1(query: Query, ratio: float) -> None:
    """As in L2, but for covariance and histogram: the triangle inequality gives 2."""
    replaced = guarantee(Laplace(3.0, query), DELTA, Adjacency.REPLACE_ONE, Method.BASIC)
    assert replaced.epsilon == pytest.approx(ratio / 3.0, rel=1e-9)
