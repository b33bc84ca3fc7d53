"""How gradients were clipped, in words for people: each clip rule says its own (`ClipRule.GRADIENT`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.plan.clip_rules import CLIP_RULES
from discreet.publication.pages.formats import number


@dataclass(frozen=True, slots=True)
class HowClipped:
    """The clip rule's words after "Each row's gradient", after "the noise multiplier times", and in a table's cell."""

    gradient: str
    unit: str
    cell: str


def how_clipped(clipping: Mapping[str, Any], record: Mapping[str, Any]) -> HowClipped:
    """The words of a plan's clip rule. `record`: the sensitivity as the certificate states it."""
    rule = CLIP_RULES[clipping["kind"]].model_validate(clipping)
    named = {**dict(rule), **rule.figures(record)}
    figures = {name: number(value) for name, value in named.items() if isinstance(value, int | float)}
    return HowClipped(*(words.format(**figures) for words in (rule.GRADIENT, rule.UNIT, rule.CELL)))
