"""How batches were drawn, in words for people: each sampler says its own (`SamplingRecord.SENTENCE`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from discreet.core.events import Event, steps_of
from discreet.publication.pages.formats import number
from discreet.publication.pages.unit_words import Words
from discreet.sampling import SAMPLERS, NoSampling


def how_drawn(sampling: Mapping[str, Any], population: float, words: Words, *, changes: bool) -> str:
    """One sentence about a plan's sampling. `changes`: the probability differs between steps."""
    if changes:
        return f"In each step every {words.one} is drawn independently, with a probability that changes over the steps."
    record = SAMPLERS.get(sampling["kind"], NoSampling)
    return _filled(record.SENTENCE, words, {"population": population, **sampling})


def who_took_part(event: Event, words: Words) -> str:
    """A few words about the draw of an event."""
    record = next((one for one in SAMPLERS.values() if one.EVENT is type(event)), NoSampling)
    values = {one.name: getattr(event, one.name) for one in fields(event)}
    return _filled(record.WHO, words, {"steps": len(steps_of(event)), **values})


def _filled(template: str, words: Words, values: Mapping[str, object]) -> str:
    counted = {name: len(value) if isinstance(value, list | tuple) else value for name, value in values.items()}
    figures = {name: number(value) for name, value in counted.items() if isinstance(value, int | float)}
    return template.format(one=words.one, many=words.many, **figures)
