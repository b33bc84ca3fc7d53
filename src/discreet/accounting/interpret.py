"""From events to `Releases`: applies the adjacency, and replaces each sampler by what is proved about it.

No other file of accounting applies the adjacency (through `sensitivity_ratio`) or the theorems on samplers, except for
those on how sampled releases compose:

| event            | becomes                                                             | adjacency             |
|------------------|---------------------------------------------------------------------|-----------------------|
| Poisson          | a sampled release                                                   | add_remove, zero_out  |
| TruncatedPoisson | the same, and an overflow that delta pays for (`truncation`), or    | add_remove, zero_out  |
|                  | a unit that may replace another (`truncated_pair`)                  |                       |
| FixedSize        | a sampled release, composed by its symmetrised curve                | replace_one           |
| Epoch            | at most its dearest batch, unsampled; a lower bound (`shuffled`)    | zero_out, replace_one |
| Allocation       | the loss of a random step (`allocation_loss`), `chosen` times       | add_remove, zero_out  |
|                  | at most `chosen` unsampled releases; a lower bound (`shuffled`)     | replace_one           |
| CyclicPoisson    | at most a sampled release for a round, in which a unit has one turn | add_remove, zero_out  |
| Individual       | `full` unsampled releases, which a unit at full length attains      | all                   |

Inner events are Gaussian, or pure (Laplace, NoisyMax, BoundedRange), not both; inside Poisson also one Selection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from discreet.accounting.pld.epsilon_interval import Periods, Release
from discreet.accounting.pld.replacement_interval import Filled
from discreet.accounting.releases import Dominated, Pure, PureRelease, Releases, SelectionRelease, constant
from discreet.accounting.theories import shuffled, sparse, truncation
from discreet.core.adjacency import Adjacency, Norm, Query, sensitivity_ratio
from discreet.core.errors import InputError, NotProved
from discreet.core.events import (
    KINDS,
    Allocation,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Individual,
    Laplace,
    NoisyMax,
    Poisson,
    Selection,
    SparseHistogram,
    TruncatedPoisson,
    batches,
    flatten,
    tally,
)

_UP = 1 + 2.0**-50
_DOWN = 1 - 2.0**-50


def releases(event: Event, adjacency: Adjacency) -> Releases:
    """Interpret an event; `NotProved` names a part that no theory of the library covers."""
    found = Releases(adjacency)
    for part, count in tally(event).items():
        found.samplers.add(type(part).__name__)
        match part:
            case Poisson(rate, inner):
                _add_poisson(found, part, rate, inner, count)
            case CyclicPoisson():
                _add_rounds(found, part, count)
            case TruncatedPoisson(rate, _, _, inner):
                _add_poisson(found, part, rate, inner, count)
                _add_truncation(found, part, count)
            case FixedSize():
                _add_fixed_size(found, part, count)
            case Epoch():
                _add_epoch(found, part, count)
            case Allocation():
                _add_allocation(found, part, count)
            case Individual(_, full, inner):
                _add(found, part, 1.0, inner, count * full)
            case SparseHistogram(noise):
                _add(found, part, 1.0, Gaussian(noise, Query.HISTOGRAM), count)
                found.escapes += count * sparse.escape(part) * _UP
            case Selection():
                _add_search(found, 1.0, part, count)
            case _:
                _add(found, part, 1.0, part, count)
    return found


def _add(found: Releases, draw: Event, rate: float, inner: Event, count: int) -> None:
    """Add `count` releases of the queries `inner`, each on a draw of its own by `draw`."""
    queries = _queries(draw, inner)
    if _all_pure(queries):
        epsilon = _joint_epsilon(queries, found.adjacency)
        found.pures.append(PureRelease(rate, epsilon, count, _joint_kind(queries)))
    else:
        found.attained.append(Release(rate, _joint_noise(draw, queries, found.adjacency), count))


def _add_search(found: Releases, rate: float, search: Selection, count: int) -> None:
    trial = releases(search.event, found.adjacency)
    if trial.overflow > 0:
        raise NotProved(
            "TruncatedPoisson inside Selection is not accounted for: part of the delta of every trial would pay for "
            "its overflow; use Poisson batches in the trials"
        )
    if trial.escapes > 0:
        raise NotProved(
            "SparseHistogram inside Selection is not accounted for: part of the delta of every trial would pay for it; "
            "declare the values, and ask for a Histogram"
        )
    found.selections.append(SelectionRelease(rate, trial, search.trials, count))


def _add_poisson(found: Releases, draw: Event, rate: float, inner: Event, count: int) -> None:
    if rate < 1 and found.adjacency is Adjacency.REPLACE_ONE:
        raise NotProved(
            "Poisson sampling under adjacency replace_one has no proved bound here; "
            "use adjacency add_remove or zero_out, or batches of fixed size, or no sampling (rate 1)"
        )
    if isinstance(draw, Poisson) and isinstance(inner, Selection):
        _add_search(found, rate, inner, count)
    else:
        _add(found, draw, rate, inner, count)


def _add_rounds(found: Releases, draw: CyclicPoisson, count: int) -> None:
    """Given its part, a unit costs one sampled release a round (`mechanism.correlated`); a mixture over parts, which
    are secret, costs no more. How much less is not known, so there is no lower bound."""
    if found.adjacency is Adjacency.REPLACE_ONE:
        raise NotProved(
            "cyclic Poisson batches under adjacency replace_one have no proved bound here; "
            "use adjacency add_remove or zero_out, or batches of fixed size"
        )
    queries = _queries(draw, draw.event)
    if _all_pure(queries) or draw.parts == 1:
        _add(found, draw, draw.rate, draw.event, count)
        return
    release = Release(draw.rate, _joint_noise(draw, queries, found.adjacency), count)
    found.dominated.append(Dominated(release, constant(0.0)))


def _add_truncation(found: Releases, draw: TruncatedPoisson, count: int) -> None:
    """Add the chance that units are left out, and the price of a batch that others fill."""
    found.overflow += count * truncation.overflow(draw.rate, draw.capacity, draw.population) * _UP
    share = truncation.filled(draw.rate, draw.capacity, draw.population)
    queries = _queries(draw, draw.event)
    if share > 0 and not _all_pure(queries):
        found.filled.append(Filled(found.attained[-1], _joint_noise(draw, queries, Adjacency.REPLACE_ONE), share))


def _add_fixed_size(found: Releases, draw: FixedSize, count: int) -> None:
    if found.adjacency is Adjacency.ADD_REMOVE:
        raise NotProved(
            "batches of fixed size need a public population, which adding or removing a unit changes; "
            "use adjacency replace_one, or Poisson sampling"
        )
    if found.adjacency is Adjacency.ZERO_OUT and draw.batch < draw.population:
        raise NotProved(
            "batches of fixed size have no theorem of their own under adjacency zero_out; "
            "use adjacency replace_one, whose guarantee covers zero_out, or Poisson sampling"
        )
    # Rounded up: a larger rate costs more (a lower rate is a post-processing of a higher one).
    rate = min(1.0, draw.batch / draw.population * _UP) if draw.batch < draw.population else 1.0
    _add(found, draw, rate, draw.event, count)


def _add_epoch(found: Releases, epoch: Epoch, count: int) -> None:
    """An epoch costs at most its most expensive batch, without sampling, since a unit is in one batch.

    Given the partition, all other batches are post-processing of the batch that holds the unit (Yu et al. 2019,
    Theorem 2); a mixture over partitions reveals at most what the partition and the release together reveal.
    """
    if found.adjacency is Adjacency.ADD_REMOVE:
        raise NotProved(
            "disjoint batches shift when a unit is added or removed, so nothing is proved under add_remove; "
            "use adjacency zero_out or replace_one, or Poisson or allocation sampling"
        )
    parts = [(_queries(epoch, batch), times) for batch, times in batches(epoch)]
    if parts and all(_all_pure(queries) for queries, _ in parts):
        worst = max(_joint_epsilon(queries, found.adjacency) for queries, _ in parts)
        kind = _joint_kind([query for queries, _ in parts for query in queries])
        found.pures.append(PureRelease(1.0, worst, count, kind))
        return
    if not parts or any(_all_pure(queries) for queries, _ in parts):
        raise NotProved("an Epoch around nothing, or with Gaussian and pure batches, is not accounted for")
    noise = min(_joint_noise(epoch, queries, found.adjacency) for queries, _ in parts)
    release = Release(1.0, noise, count)
    if sum(times for _, times in parts) == 1:
        found.attained.append(release)
        return
    signed = [([query for query in queries if _is_signed(query[0])], times) for queries, times in parts]
    if all(queries for queries, _ in signed):
        own = [(_joint_noise(epoch, queries, Adjacency.ZERO_OUT) / _DOWN**2, times) for queries, times in signed]
        found.dominated.append(Dominated(release, partial(shuffled.epoch_lower, _merged(own), count)))
    else:
        found.dominated.append(Dominated(release, constant(0.0)))


def _add_allocation(found: Releases, draw: Allocation, count: int) -> None:
    """Given its steps, a unit costs `chosen` unsampled releases; a mixture over the choice of steps costs no more.

    Unless a record replaces another, it costs less: see `pld.allocation_loss`.
    """
    queries = _queries(draw, draw.event)
    if _all_pure(queries):
        epsilon = _joint_epsilon(queries, found.adjacency)
        found.pures.append(PureRelease(1.0, epsilon, count * draw.chosen, _joint_kind(queries)))
        return
    release = Release(1.0, _joint_noise(draw, queries, found.adjacency), count * draw.chosen)
    if draw.chosen == draw.steps:
        found.attained.append(release)
        return
    own = _joint_noise(draw, queries, Adjacency.ZERO_OUT) / _DOWN**2
    lower = partial(shuffled.allocation_lower, own, draw.steps, draw.chosen, count)
    block, periods = draw.steps // draw.chosen, None
    if found.adjacency is not Adjacency.REPLACE_ONE and block > 1:
        periods = Periods(block, release.noise, count * draw.chosen)
    found.dominated.append(Dominated(release, lower, periods, attained=periods is not None and draw.chosen == 1))


def _is_signed(query: Event) -> bool:
    """Whether contributions of opposite sign exist, which the lower bound for epochs needs."""
    return isinstance(query, Gaussian) and query.query in (Query.CLIPPED_SUM, Query.CENTRED_BIT)


def _merged(parts: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    totals: dict[float, int] = {}
    for noise, times in parts:
        totals[noise] = totals.get(noise, 0) + times
    return list(totals.items())


Queries = list[tuple[Event, int]]


def _all_pure(queries: Queries) -> bool:
    return bool(queries) and all(isinstance(query, Pure) for query, _ in queries)


def _joint_noise(draw: Event, queries: Queries, adjacency: Adjacency) -> float:
    """The noise multiplier s_eff of all Gaussian queries on one draw together: 1 / s_eff^2 = sum of (ratio / s)^2."""
    name = type(draw).__name__
    other = next((type(query).__name__ for query, _ in queries if not isinstance(query, Gaussian)), None)
    if other:
        raise NotProved(f"Gaussian and {other} queries on one {name} draw are not accounted for; draw twice")
    squares = [
        ((sensitivity_ratio(query.query, adjacency) / query.noise_multiplier) ** 2, count)
        for query, count in queries
        if isinstance(query, Gaussian)
    ]
    if not any(square > 0 for square, _ in squares):
        raise NotProved(f"a {name} event around nothing, or with noise beyond all range, is not accounted for")
    # A square that underflowed is at most 2^-1074, but may be counted often.
    return 1 / math.sqrt(math.fsum(count * (square + 2.0**-1074) for square, count in squares)) * _DOWN


def _joint_epsilon(queries: Queries, adjacency: Adjacency) -> float:
    """The sum of the epsilons of pure queries on one draw; exact for a single query."""
    total = math.fsum(count * _pure_epsilon(query, adjacency) for query, count in queries if isinstance(query, Pure))
    return total * _UP


def _pure_epsilon(query: Pure, adjacency: Adjacency) -> float:
    ratio = sensitivity_ratio(query.query, adjacency, Norm.L1)
    return ratio / query.scale_multiplier if isinstance(query, Laplace) else ratio * query.epsilon


def _joint_kind(queries: Queries) -> type[Pure]:
    """The common kind: ranges add up, and so do epsilons. Of different kinds only the epsilon is known: NoisyMax."""
    kinds: set[type[Pure]] = {type(query) for query, _ in queries if isinstance(query, Pure)}
    return kinds.pop() if len(kinds) == 1 else NoisyMax


def _queries(draw: Event, inner: Event) -> Queries:
    found = list(flatten(inner))
    for part, _ in found:
        if not isinstance(part, tuple(KINDS.values())):
            raise InputError(f"event must be an event such as Poisson(rate, Gaussian(noise)), got {part!r:.80}")
        if not isinstance(part, Gaussian | Pure):
            raise NotProved(
                f"{type(part).__name__} inside {type(draw).__name__} is not accounted for; only Gaussian events, "
                "or only pure ones (Laplace, NoisyMax, BoundedRange), composed or repeated, can be sampled"
            )
    return found
