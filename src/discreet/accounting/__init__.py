"""Privacy accounting: theories of composition, one file each, and the guarantee that one of them gives for an event.

Names are loaded on first use, since files of this room import one another.
"""

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use

if TYPE_CHECKING:
    from discreet.accounting.account import Method as Method
    from discreet.accounting.account import guarantee as guarantee
    from discreet.accounting.answers.calibrate import calibrate_noise as calibrate_noise
    from discreet.accounting.answers.event_tradeoff import trade_off as trade_off
    from discreet.accounting.answers.profile import delta_at as delta_at
    from discreet.accounting.answers.profile import group_guarantee as group_guarantee
    from discreet.core.events import Allocation as Allocation
    from discreet.core.events import Compose as Compose
    from discreet.core.events import CyclicPoisson as CyclicPoisson
    from discreet.core.events import Epoch as Epoch
    from discreet.core.events import Event as Event
    from discreet.core.events import FixedSize as FixedSize
    from discreet.core.events import Gaussian as Gaussian
    from discreet.core.events import Individual as Individual
    from discreet.core.events import Laplace as Laplace
    from discreet.core.events import Poisson as Poisson
    from discreet.core.events import Repeat as Repeat
    from discreet.core.events import TruncatedPoisson as TruncatedPoisson
    from discreet.core.guarantee import Estimate as Estimate
    from discreet.core.guarantee import ExPost as ExPost
    from discreet.core.guarantee import Guarantee as Guarantee
    from discreet.core.guarantee import Published as Published

_HOMES = {
    **dict.fromkeys(("Method", "guarantee"), ".account"),
    "calibrate_noise": ".answers.calibrate",
    **dict.fromkeys(("delta_at", "group_guarantee"), ".answers.profile"),
    "trade_off": ".answers.event_tradeoff",
    **dict.fromkeys(
        ("Allocation", "Compose", "CyclicPoisson", "Epoch", "Event", "FixedSize", "Gaussian"), "discreet.core.events"
    ),
    **dict.fromkeys(("Individual", "Laplace", "Poisson", "Repeat", "TruncatedPoisson"), "discreet.core.events"),
    **dict.fromkeys(("Estimate", "ExPost", "Guarantee", "Published"), "discreet.core.guarantee"),
}

__all__ = [*_HOMES]

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
