"""The dispatch: event x adjacency x method -> `Guarantee`. Anything that is not proved is refused here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

import numpy as np

from discreet.accounting import gaussian, rdp
from discreet.accounting.pld.bounds import EpsilonInterval, Release, default_tolerance, epsilon_interval
from discreet.core import checks
from discreet.core.adjacency import Adjacency, sensitivity_ratio
from discreet.core.errors import DiscreetError, InputError, NotProved
from discreet.core.events import Event, Gaussian, Poisson, flatten, tally
from discreet.core.guarantee import Guarantee

E = TypeVar("E", bound=StrEnum)


class Method(StrEnum):
    """Theories that prove a guarantee."""

    PLD = "pld"
    RDP = "rdp"


def guarantee(
    event: Event,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    method: Method = Method.PLD,
    tolerance: Callable[[float], float] = default_tolerance,
) -> Guarantee:
    """The (epsilon, delta) guarantee of a plan that is fixed before the data is seen.

    `tolerance` maps an epsilon to the width aimed at for the interval [lower, epsilon] (method `pld`).

    | event                                   | add_remove, zero_out      | replace_one    |
    |-----------------------------------------|---------------------------|----------------|
    | Gaussians, no sampling                  | exact Gaussian; rdp       | exact; rdp     |
    | Poisson(rate, Gaussians), any mixture   | pld, both directions; rdp | `NotProved`    |
    | nothing released                        | epsilon 0                 | epsilon 0      |

    Where the numbers are beyond floating point, the bound is infinite.
    """
    checks.open_unit("delta", delta)
    adjacency, method = parse(Adjacency, "adjacency", adjacency), parse(Method, "method", method)
    parts = tally(event)
    if not parts:
        return Guarantee(0.0, delta, adjacency, method.value, 0.0)
    try:
        with np.errstate(all="ignore"):  # a NaN or an overflow on the way ends as an infinite bound
            releases = [_release(part, count, adjacency) for part, count in parts.items()]
            return _PROVERS[method](releases, delta, adjacency, tolerance)
    except DiscreetError:
        raise
    except (ArithmeticError, ValueError):
        return Guarantee(math.inf, delta, adjacency, method.value, 0.0 if method is Method.PLD else None)


def parse(kind: type[E], name: str, value: str) -> E:
    """`value` as a member of the enumeration `kind`, or an `InputError` that lists the members."""
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"unknown {name} {value!r}; known: {', '.join(member.value for member in kind)}") from None


def _by_pld(
    releases: Sequence[Release], delta: float, adjacency: Adjacency, tolerance: Callable[[float], float]
) -> Guarantee:
    if all(release.rate == 1 for release in releases):
        mu = gaussian.compose_mu((release.noise, release.count) for release in releases)
        interval = EpsilonInterval(*gaussian.epsilon_bounds(mu, delta))
        return Guarantee(interval.upper, delta, adjacency, "gaussian", interval.lower)
    interval = epsilon_interval(releases, delta, tolerance)
    return Guarantee(interval.upper, delta, adjacency, Method.PLD.value, interval.lower)


def _by_rdp(
    releases: Sequence[Release], delta: float, adjacency: Adjacency, tolerance: Callable[[float], float]
) -> Guarantee:
    curve = rdp.compose((release.rate, release.noise, release.count) for release in releases)
    return Guarantee(rdp.epsilon(curve, delta), delta, adjacency, Method.RDP.value)


_PROVERS = {Method.PLD: _by_pld, Method.RDP: _by_rdp}


def _release(event: Event, count: int, adjacency: Adjacency) -> Release:
    """An elementary event as a sampled Gaussian; what is neither is declined by name."""
    if isinstance(event, Poisson) and event.rate < 1:
        if adjacency is Adjacency.REPLACE_ONE:
            raise NotProved(
                "Poisson sampling under adjacency replace_one has no proved bound here; "
                "use adjacency add_remove or zero_out, or no sampling (rate 1)"
            )
        return Release(event.rate, _effective_noise(event.event, adjacency), count)
    return Release(1.0, _effective_noise(event.event if isinstance(event, Poisson) else event, adjacency), count)


def _effective_noise(event: Event, adjacency: Adjacency) -> float:
    """All Gaussian queries on one draw are one: 1 / s_eff^2 = sum of (ratio / s)^2 over the queries."""
    precision = math.fsum(
        count * (sensitivity_ratio(part.query, adjacency) / part.noise_multiplier) ** 2
        for part, count in _gaussians(event)
    )
    if not precision > 0:
        raise NotProved("a Poisson event around nothing, or with noise beyond all range, is not accounted for")
    return 1 / math.sqrt(precision) * (1 - 2.0**-50)


def _gaussians(event: Event) -> list[tuple[Gaussian, int]]:
    found = []
    for part, count in flatten(event):
        if not isinstance(part, Gaussian):
            raise NotProved(
                f"{type(part).__name__} inside Poisson is not accounted for; "
                "only Gaussian events, composed or repeated, can be sampled"
            )
        found.append((part, count))
    return found
