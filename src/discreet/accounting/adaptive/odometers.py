"""Privacy odometers: bounds on the privacy loss at whatever time a run stops.

An odometer is frozen data, fixed before the first release, with no limit on what is released. It sums costs, as filters
do, and `read` turns the sums into an `ExPost` statement: P(at some time the privacy loss exceeds the reading of that
time) <= delta. So the reading holds even at a time that depends on the outputs. It is no (epsilon, delta) guarantee.

The privacy loss is L_n = log P(outputs)/Q(outputs), outputs drawn from P, for any neighbours P and Q in either order.

| odometer         | covers                     | reading                                                     |
|------------------|----------------------------|-------------------------------------------------------------|
| DoublingOdometer | whatever has a Rényi curve | Lecuyer 2021, equation 5                                    |
| RenyiOdometer    | the same                   | a mixture over orders; below equation 5 at the same orders  |
| ZcdpOdometer     | no sampling                | a mixture over all orders at once                           |
| GaussianOdometer | Gaussians, no sampling     | a line that Brownian motion crosses with probability delta  |

Proofs. Given the past, an event with D_alpha <= c has E[exp((alpha - 1) loss)] <= exp((alpha - 1) c). So, for costs
chosen from the past, exp((alpha - 1) (L_n - sum c)) is a supermartingale that starts at 1, and so is every mixture of
these over alpha. By Ville's inequality the mixture ever reaches 1/delta with probability at most delta. A reading is
the loss at which it would (Whitehouse, Ramdas, Rogers, Wu 2023 do so for zCDP). Each class says which mixture it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.accounting.adaptive import codec, costs
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.doubling_odometer import DoublingOdometer as DoublingOdometer
from discreet.accounting.adaptive.gaussian_odometer import GaussianOdometer as GaussianOdometer
from discreet.accounting.adaptive.odometer_base import FULL as FULL
from discreet.accounting.adaptive.odometer_base import OUTWARD
from discreet.accounting.adaptive.odometer_base import QUANTUM as QUANTUM
from discreet.accounting.adaptive.order_odometer import OrderOdometer
from discreet.accounting.adaptive.renyi_odometer import RenyiOdometer as RenyiOdometer
from discreet.accounting.adaptive.zcdp_odometer import ZcdpOdometer as ZcdpOdometer
from discreet.core.guarantee import ExPost

Odometer = DoublingOdometer | RenyiOdometer | ZcdpOdometer | GaussianOdometer


KINDS: dict[str, type[Odometer]] = {
    kind.kind: kind for kind in (DoublingOdometer, RenyiOdometer, ZcdpOdometer, GaussianOdometer)
}


def start(odometer: Odometer) -> Amounts:
    """The sum spent before the first release: zeros."""
    return (0.0,) * len(_quanta(odometer))


def advance(odometer: Odometer, spent: Sequence[float], cost: Sequence[float]) -> Amounts:
    """The sum spent after a release of this cost; `InputError` for NaN, a negative number or a wrong length."""
    units = _quanta(odometer)
    counted = map(costs.round_up, costs.checked(cost, len(units)), units)
    return tuple(
        min(FULL, before + more) for before, more in zip(costs.checked(spent, len(units)), counted, strict=True)
    )


def read(odometer: Odometer, spent: Sequence[float]) -> ExPost:
    """The reading now; it is 0 before the first release."""
    amounts = costs.checked(spent, len(_quanta(odometer)))
    epsilon = max(0.0, odometer.reading(amounts) * OUTWARD) if any(amounts) else 0.0
    return ExPost(epsilon, odometer.delta, odometer.adjacency, f"{odometer.kind}-odometer", odometer.unit)


def as_dict(odometer: Odometer) -> dict[str, Any]:
    """JSON-ready fields; `from_dict` is the inverse, to the last bit."""
    return codec.encode("odometer", odometer.kind, odometer)


def from_dict(data: Mapping[str, Any]) -> Odometer:
    """Decode what `as_dict` made. An unknown kind, a missing or an extra field is an `InputError`."""
    return codec.decode("odometer", KINDS, data)


def _quanta(odometer: Odometer) -> Amounts:
    return (QUANTUM,) * (len(odometer.orders) if isinstance(odometer, OrderOdometer) else 1)
