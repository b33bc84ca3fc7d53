"""The kinds of parts that an experiment may have, by the name that files give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from discreet.core.errors import InputError
from discreet.plan.validation import Frozen, validate
from discreet.reproduction.divergence import DivergencePart
from discreet.reproduction.epsilon import EpsilonPart
from discreet.reproduction.equal import EqualPart
from discreet.reproduction.experiment import Part
from discreet.reproduction.goals import GoalsPart
from discreet.reproduction.noise import NoisePart
from discreet.reproduction.odometer import OdometerPart
from discreet.reproduction.paths import PathsPart
from discreet.reproduction.published import PublishedPart
from discreet.reproduction.scales import ScalesPart
from discreet.reproduction.schedule import SchedulePart
from discreet.reproduction.timing import TimingPart
from discreet.reproduction.tradeoff import TradeOffPart
from discreet.reproduction.training import TrainingPart

KINDS: Mapping[str, type[Frozen]] = {
    "divergence": DivergencePart,
    "epsilon": EpsilonPart,
    "equal": EqualPart,
    "goals": GoalsPart,
    "noise": NoisePart,
    "odometer": OdometerPart,
    "paths": PathsPart,
    "published": PublishedPart,
    "scales": ScalesPart,
    "schedule": SchedulePart,
    "timing": TimingPart,
    "trade_off": TradeOffPart,
    "training": TrainingPart,
}


def part_of(content: Mapping[str, Any], where: str) -> Part:
    """A part of an experiment file."""
    kind = str(content.get("kind"))
    if kind not in KINDS:
        raise InputError(f"{where}: unknown kind {kind!r}; known: {', '.join(KINDS)}")
    return cast(Part, validate(KINDS[kind], content, where))
