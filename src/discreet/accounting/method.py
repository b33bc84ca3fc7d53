"""`Method`: the accounting methods by name. The theories themselves are loaded when something is asked of a method."""

from __future__ import annotations

from enum import StrEnum
from types import ModuleType

from discreet.core.events import Event, tally


class Method(StrEnum):
    """How a plan is accounted for. The first six prove; the others estimate, or repeat figures that papers print."""

    PLD = "pld"
    RDP = "rdp"
    GDP = "gdp"
    ZCDP = "zcdp"
    ADVANCED = "advanced"
    BASIC = "basic"
    CLT = "clt"
    ZCDP_RS = "zcdp-rs"
    MOMENTS = "moments"
    ZCDP_RF = "zcdp-rf"
    STRONG = "strong"
    ADADP = "adadp"
    DROPOUT_AC = "dropout-ac"
    DROPOUT_ZCDP = "dropout-zcdp"

    @classmethod
    def _missing_(cls, value: object) -> Method | None:
        """A prover that was added to `PROVERS` is a method like any other."""
        if not isinstance(value, str) or value not in _theories().PROVERS:
            return None
        added = str.__new__(cls, value)
        added._name_, added._value_ = value.upper(), value
        return added

    @property
    def proves(self) -> bool:
        """Whether the answer is a `Guarantee`."""
        return self.value in _theories().PROVERS

    @property
    def why(self) -> str:
        """One sentence on why the figure does or does not hold for a fixed plan of Poisson batches, or unsampled."""
        return str(_reasons().WHY[self.value])

    def why_for(self, event: Event) -> str:
        """One sentence, or more, on why the figure does or does not hold for the samplers in `event`."""
        return str(_reasons().why(self.value, {type(part).__name__ for part in tally(event)}))


def _theories() -> ModuleType:
    from discreet.accounting import theory_table

    return theory_table


def _reasons() -> ModuleType:
    from discreet.accounting import reasons

    return reasons
