"""The kinds of parts that an experiment may have, by the name that files give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from discreet.core.errors import InputError
from discreet.plan.pydantic_base import Frozen, validate
from discreet_papers.part import Part
from discreet_papers.parts.divergence import DivergencePart
from discreet_papers.parts.epsilon import EpsilonPart
from discreet_papers.parts.equal import EqualPart
from discreet_papers.parts.noise import NoisePart
from discreet_papers.parts.odometer import OdometerPart
from discreet_papers.parts.paths import PathsPart
from discreet_papers.parts.published import PublishedPart
from discreet_papers.parts.schedule import SchedulePart
from discreet_papers.parts.tradeoff import TradeOffPart
from discreet_papers.parts.trained.goals import GoalsPart
from discreet_papers.parts.trained.leaking_adadp import LeakingADADPPart
from discreet_papers.parts.trained.learning_curve import LearningCurvePart
from discreet_papers.parts.trained.scales import ScalesPart
from discreet_papers.parts.trained.timing import TimingPart
from discreet_papers.parts.trained.training import TrainingPart
from discreet_papers.parts.trained.word_vectors import WordVectorsPart

KINDS: Mapping[str, type[Frozen]] = {
    "divergence": DivergencePart,
    "epsilon": EpsilonPart,
    "equal": EqualPart,
    "goals": GoalsPart,
    "leaking_adadp": LeakingADADPPart,
    "learning_curve": LearningCurvePart,
    "noise": NoisePart,
    "odometer": OdometerPart,
    "paths": PathsPart,
    "published": PublishedPart,
    "scales": ScalesPart,
    "schedule": SchedulePart,
    "timing": TimingPart,
    "trade_off": TradeOffPart,
    "training": TrainingPart,
    "word_vectors": WordVectorsPart,
}


def part_of(content: Mapping[str, Any], where: str) -> Part:
    """A part of an experiment file."""
    kind = str(content.get("kind"))
    if kind not in KINDS:
        raise InputError(f"{where}: unknown kind {kind!r}; known: {', '.join(KINDS)}")
    return cast(Part, validate(KINDS[kind], content, where))
