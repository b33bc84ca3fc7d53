"""One draw, all its queries, one event: charged, drawn, answered, in that order.

A draw cannot be asked twice: the drawn rows never leave `release`, and all its answers are one event of the ledger,
`Poisson(rate, Compose(...))`. Charging the queries of a draw separately would be wrong: a unit that is drawn is in all
of them.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.accounting.account import parse
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.assumptions import CHOICE
from discreet.core.errors import InputError
from discreet.core.events import Compose, Event, Poisson
from discreet.core.guarantee import Guarantee
from discreet.core.release import Receipt
from discreet.queries.charging import Account, Payment, check_account
from discreet.queries.choices import Choice, Quantile
from discreet.queries.rows import numbered, private_rows, usable
from discreet.queries.sums import Count, Covariance, Histogram, Mean, NoisySum, Sum, check_multiplier, events
from discreet.randomness import Purpose, RoundedSampler, Substream
from discreet.randomness.exact import LARGEST_SCALE
from discreet.sampling import PoissonSampler

AnyQuery = Count | Sum | Mean | Histogram | Covariance | Choice | Quantile

Multipliers = float | Sequence[float]
"""One noise multiplier for all sums, or one for each of them in order."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to all queries on one draw, with the event that describes them and what they cost.

    `values[i]` answers query i: a read-only array, or the chosen candidate. Sums are divided by the sampling rate, so
    they estimate sums over all rows. `guarantee` is for this event alone.
    """

    values: tuple[Any, ...]
    event: Event
    receipt: Receipt
    guarantee: Guarantee
    assumptions: tuple[str, ...]

    def __repr__(self) -> str:
        values = ", ".join(" ".join(str(value).split()) for value in self.values)
        return f"<Answers: {values}; {self.guarantee}>"

    def __getitem__(self, index: int) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


def joint_event(
    queries: Sequence[AnyQuery],
    multipliers: Multipliers = (),
    rate: float = 1.0,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Event:
    """The one event of answering `queries` together on one draw (every row, or a Poisson sample at `rate`)."""
    parts: list[Event] = []
    queries, adjacency = _checked(queries), parse(Adjacency, "adjacency", adjacency)
    for query, multiplier in zip(queries, _each(queries, multipliers), strict=True):
        if isinstance(query, Choice | Quantile):
            parts.append(query.event(adjacency))
        else:
            parts.extend(events(query, multiplier))
    inner = parts[0] if len(parts) == 1 else Compose(tuple(parts))
    return inner if checks.rate("rate", rate) == 1 else Poisson(rate, inner)


def release(
    data: npt.ArrayLike,
    queries: Sequence[AnyQuery],
    account: Account,
    multipliers: Multipliers | None = None,
    *,
    epsilon: float | None = None,
    rate: float = 1.0,
) -> Answers:
    """Answer all `queries` on one draw of `data`, as one event, charged to `account` before anything is drawn.

    `data`: an array, or a frame whose columns are numbers; queries may give a column of a frame by its name.

    Give `multipliers` (noise std / one unit's contribution), or an `epsilon`: all sums then get the least common
    multiplier at which the event costs at most that, at the account's delta. Choices have an epsilon of their own.

    | case                         | what happens                                                   |
    |------------------------------|----------------------------------------------------------------|
    | rate below 1                 | every row takes part with that probability; sums are divided by it |
    | a row with NaN or infinity   | contributes zero to every query                                |
    | no rows, or an empty draw    | answered like any other                                        |
    | the budget does not suffice  | `BudgetExhausted`; nothing was charged or read                 |

    The number of rows is used for reading and drawing them only. A wrong query is an `InputError` before the charge:
    each query is first tried on an empty array.
    """
    rows, queries = private_rows(data), [numbered(query, data) for query in _checked(queries)]
    check_account(account)
    if multipliers is None:
        multipliers = _within(queries, account, epsilon, rate)
    elif epsilon is not None:
        raise InputError("give either multipliers or epsilon, not both")
    event = joint_event(queries, multipliers, rate, account.adjacency)
    noise = _each(queries, multipliers)
    for query, multiplier in zip(queries, noise, strict=True):
        _check_empty(query, rows[:0], multiplier, account)
    payment = account.pay(event)
    drawn = usable(rows[_draw(rate, len(rows), payment)])
    substream = payment.stream.substream(Purpose.NOISE, payment.receipt.position)
    values = tuple(
        _answer(query, drawn, multiplier, rate, account, substream)
        for query, multiplier in zip(queries, noise, strict=True)
    )
    account.done(payment)
    assumptions = [] if all(math.isnan(multiplier) for multiplier in noise) else [account.sampler.assumption]
    assumptions += [CHOICE] if any(math.isnan(multiplier) for multiplier in noise) else []
    return Answers(values, event, payment.receipt, payment.guarantee, tuple(assumptions))


def _draw(rate: float, size: int, payment: Payment) -> npt.NDArray[np.int64] | slice:
    if rate == 1:
        return slice(None)
    (drawn,) = PoissonSampler(rate).batches(payment.receipt.position, size, payment.stream)
    return drawn


def _check_empty(query: AnyQuery, empty: Array, multiplier: float, account: Account) -> None:
    """Find errors in a query before its charge, on `empty`, an array without rows."""
    if isinstance(query, Choice | Quantile):
        query.check_empty(empty, account.adjacency)
        return
    for total in query.sums(empty, multiplier):
        if not total.deviation(multiplier) <= LARGEST_SCALE:
            raise InputError(
                f"{type(query).__name__}: a noise multiplier of {multiplier:g} is too large for the grid of its sums "
                f"(noise of at most 2^50 steps of {total.unit:g}); take less noise"
            )


def _answer(
    query: AnyQuery, rows: Array, multiplier: float, rate: float, account: Account, substream: Substream
) -> Any:
    if isinstance(query, Choice | Quantile):
        return query.choose(rows, account.adjacency, substream)
    noisy = tuple(
        _with_noise(total, multiplier, account.sampler, substream) / rate for total in query.sums(rows, multiplier)
    )
    value = np.array(query.read(noisy))
    value.setflags(write=False)
    return value


def _with_noise(total: NoisySum, multiplier: float, sampler: RoundedSampler, substream: Substream) -> Array:
    """The sum plus a rounded Gaussian of std >= multiplier x contribution, added as whole numbers.

    round(Z) + S = round(Z + S) for whole S: post-processing of the Gaussian mechanism, as in `mechanism.gaussian`. S
    has as many digits as it needs: cut or wrapped to 64 bits it would be as private and wrong, and a refusal would say
    how many rows there are. Only the noisy sum is rounded, to float64.
    """
    scale = math.ceil(total.deviation(multiplier))
    noise = sampler.draw(substream, total.units.size, scale).reshape(total.units.shape)
    noisy: Array = np.asarray(total.units + noise, dtype=object).astype(np.float64) * total.unit
    return noisy


def _checked(queries: Sequence[AnyQuery]) -> Sequence[AnyQuery]:
    if isinstance(queries, AnyQuery) or not isinstance(queries, Iterable | None):
        raise InputError(f"queries must be a list, as [Count()], got {queries!r:.80}")
    queries = tuple(queries or ())
    if not queries:
        raise InputError("there is no query to answer")
    for query in queries:
        if not isinstance(query, AnyQuery):
            raise InputError(f"not a query: {query!r}; use Count, Sum, Mean, Histogram, Covariance, Choice, Quantile")
    return queries


def _each(queries: Sequence[AnyQuery], multipliers: Multipliers) -> list[float]:
    """The noise multiplier of each query; NaN for choices, which have none."""
    sums = [i for i, query in enumerate(queries) if not isinstance(query, Choice | Quantile)]
    try:
        if isinstance(multipliers, Mapping | Set):  # which have no order of the sums
            raise TypeError
        given = [multipliers] * len(sums) if isinstance(multipliers, float | numbers.Real | str) else list(multipliers)
    except TypeError:
        raise InputError(f"multipliers must be a number or a list of them, got {multipliers!r:.80}") from None
    if len(given) != len(sums):
        raise InputError(f"give one noise multiplier for each of the {len(sums)} sums, not {len(given)}")
    result = [math.nan] * len(queries)
    for i, value in zip(sums, given, strict=True):
        result[i] = checks.positive("multiplier", value)
        check_multiplier(result[i])
    return result


def _within(queries: Sequence[AnyQuery], account: Account, epsilon: float | None, rate: float) -> Multipliers:
    """The common multiplier for `epsilon`, or () if all queries are choices."""
    if all(isinstance(query, Choice | Quantile) for query in queries):
        if epsilon is not None:
            raise InputError("choices bring their own epsilon; leave it out here")
        return ()
    if epsilon is None:
        raise InputError("say how much noise: multipliers, or an epsilon")
    return account.calibrate(lambda m: joint_event(queries, m, rate, account.adjacency), epsilon)
