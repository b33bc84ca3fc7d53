"""The dispatch: event x adjacency x method -> `Guarantee`, `Estimate` or `Published`.

`guarantee` certifies: it accepts only methods that prove. `account` answers for every method, and the type of the
answer says what it is worth. An event that a theory does not cover is `NotProved`, which names the alternatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

import numpy as np

from discreet.accounting import reasons, theory_table
from discreet.accounting.interpret import releases
from discreet.accounting.method import Method as Method
from discreet.accounting.pld.epsilon_interval import default_tolerance
from discreet.accounting.releases import Releases
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import DiscreetError, InputError, NotProved
from discreet.core.events import Event, tally
from discreet.core.guarantee import Estimate, Guarantee, Published, Statement

E = TypeVar("E", bound=StrEnum)


PROVING = tuple(method for method in Method if method.proves)


def guarantee(
    event: Event,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    method: Method = Method.PLD,
    tolerance: Callable[[float], float] = default_tolerance,
) -> Guarantee:
    """The (epsilon, delta) guarantee of a plan that is fixed before the data is seen.

    `tolerance` maps an epsilon to the desired width of the interval [lower, epsilon] (method `pld`).

    | event                                  | add_remove           | zero_out             | replace_one          |
    |----------------------------------------|----------------------|----------------------|----------------------|
    | Gaussians, no sampling                 | G                    | G                    | G                    |
    | Poisson(rate, Gaussians)               | S, both directions   | S, both directions   | `NotProved`          |
    | TruncatedPoisson(Gaussians)            | S, less delta        | S, less delta        | `NotProved`          |
    | FixedSize(Gaussians)                   | `NotProved`          | `NotProved`          | S, symmetrised       |
    | Epoch(Gaussians)                       | `NotProved`          | G as an upper bound  | G as an upper bound  |
    | Allocation(steps, chosen, Gaussians)   | G as an upper bound  | G as an upper bound  | G as an upper bound  |
    | CyclicPoisson(parts, rate, Gaussians)  | S as an upper bound  | S as an upper bound  | `NotProved`          |
    | Individual(steps, full, Gaussian)      | G                    | G                    | G                    |
    | Laplace, no sampling                   | L                    | L                    | L                    |
    | NoisyMax, BoundedRange, no sampling    | L, pld               | L, pld               | L, pld               |
    | Poisson(rate, Laplace)                 | C                    | C                    | `NotProved`          |
    | Poisson(rate, NoisyMax, BoundedRange)  | C, pld               | C, pld               | `NotProved`          |
    | TruncatedPoisson(pure)                 | as Poisson, less delta | as Poisson, less delta | `NotProved`      |
    | FixedSize(pure)                        | `NotProved`          | `NotProved`          | C                    |
    | Epoch(pure)                            | `NotProved`          | as the dearest batch | as the dearest batch |
    | Allocation(steps, chosen, pure)        | as `chosen` of them  | as `chosen` of them  | as `chosen` of them  |
    | SparseHistogram, no sampling           | G, less delta        | G, less delta        | G, less delta        |
    | Selection of one column's events       | rdp, C; alone: pld   | rdp, C; alone: pld   | rdp, C; alone: pld   |
    | Poisson(rate, Selection)               | C                    | C                    | `NotProved`          |
    | other samplers of Selection            | `NotProved`          | `NotProved`          | `NotProved`          |
    | nothing released                       | epsilon 0            | epsilon 0            | epsilon 0            |

    G: pld and gdp (exact), rdp, zcdp, C. S: pld, rdp, C. L: rdp, zcdp, C. C: advanced, basic. Pure: Laplace, NoisyMax,
    BoundedRange. Of an Allocation of Gaussians pld composes the loss of a random step, unless a record replaces
    another. "Less delta": part of delta pays for batches that overflow, or for values that one row alone has.
    Events of one column may be mixed; the methods that cover every part then cover the mixture, except that pld covers
    a Selection only if it is alone. A Selection has those of its methods that cover its trial too; TruncatedPoisson in
    a trial is `NotProved`.

    If pld proves a larger epsilon than rdp (few plans, at the ends of the range), the answer is that of rdp and its
    `method` says so. If the numbers leave the range of floating point, the bound is infinite.
    """
    delta = checks.open_unit("delta", delta)
    adjacency, method = parse(Adjacency, "adjacency", adjacency), parse(Method, "method", method)
    if not method.proves:
        raise NotProved(f"method {method.value} proves nothing; use one of {', '.join(m.value for m in PROVING)}")
    parts = tally(event)
    if not parts:
        return Guarantee(0.0, delta, adjacency, method.value, 0.0)
    try:
        with np.errstate(all="ignore"):  # a NaN or an overflow becomes an infinite bound
            proved = theory_table.prove(method.value, releases(event, adjacency), delta, tolerance)
    except DiscreetError:
        raise
    except (ArithmeticError, ValueError):
        return Guarantee(math.inf, delta, adjacency, method.value, 0.0 if method is Method.PLD else None)
    return Guarantee(proved.upper, delta, adjacency, proved.theorem or method.value, proved.lower)


def account(
    event: Event,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    method: Method = Method.PLD,
    tolerance: Callable[[float], float] = default_tolerance,
) -> Statement:
    """The answer of `method` for a fixed plan; only a `Guarantee` may be relied on.

    | method                                   | answer      |
    |------------------------------------------|-------------|
    | pld, rdp, gdp, zcdp, advanced, basic     | `Guarantee` |
    | clt, zcdp-rs                             | `Estimate`  |
    | moments, zcdp-rf, strong, adadp          | `Published` |
    | dropout-ac, dropout-zcdp                 | `Published` |
    """
    adjacency, method = parse(Adjacency, "adjacency", adjacency), parse(Method, "method", method)
    if method.proves:
        return guarantee(event, delta, adjacency, method, tolerance)
    delta = checks.open_unit("delta", delta)
    figure = theory_table.ESTIMATORS.get(method.value) or theory_table.REPEATERS[method.value]
    value = _figure(figure, event, delta, adjacency)
    if method.value in theory_table.ESTIMATORS:
        return Estimate(value, delta, adjacency, method.value, method.why_for(event))
    return Published(value, delta, adjacency, method.value, reasons.SOURCES[method.value], method.why_for(event))


def parse(kind: type[E], name: str, value: str) -> E:
    """`value` as a member of the enumeration `kind`, or an `InputError` that lists the members."""
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"unknown {name} {value!r}; known: {', '.join(member.value for member in kind)}") from None


def _figure(figure: Callable[[Releases, float], float], event: Event, delta: float, adjacency: Adjacency) -> float:
    if not tally(event):
        return 0.0
    try:
        with np.errstate(all="ignore"):
            value = figure(releases(event, adjacency), delta)
    except DiscreetError:
        raise
    except (ArithmeticError, ValueError):
        return math.inf
    return max(0.0, value) if not math.isnan(value) else math.inf
