"""Events as certificates state them: one composition of repeated events, of no more steps than can be followed."""

from __future__ import annotations

from typing import Any

import pytest

from discreet.core.errors import InputError
from discreet.verification.checks.plan_events import MOST_STEPS, stated

NOISE = {"event": "gaussian", "noise_multiplier": 1.0, "query": "clipped_sum"}


def repeated(*counts: int) -> dict[str, Any]:
    return {"event": "compose", "of": [{"event": "repeat", "count": count, "of": NOISE} for count in counts]}


def test_equal_events_in_a_row_are_one() -> None:
    assert [*stated(repeated(2, 3))] == [(NOISE, 5)]


@pytest.mark.parametrize(
    "event", [NOISE, repeated(1)["of"][0], {"event": "compose", "of": [NOISE, *repeated(1)["of"]]}]
)
def test_other_compositions_are_refused(event: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="one composition of repeated events"):
        stated(event)


def test_more_steps_than_can_be_followed_are_refused() -> None:
    stated(repeated(MOST_STEPS - 1, 1))
    with pytest.raises(InputError, match="more than 10,000,000 steps are not followed"):
        stated(repeated(MOST_STEPS - 1, 2))
