"""The dial of a run counts blocks, and says what counting step by step would."""

from __future__ import annotations

import random

import pytest

from discreet.accounting.adaptive.odometers import (
    DoublingOdometer,
    GaussianOdometer,
    Odometer,
    RenyiOdometer,
    ZcdpOdometer,
)
from discreet.core.errors import BudgetExhausted
from discreet.core.events import Compose, Event, Gaussian, Poisson
from discreet.plan.adaptive.odometer_rule import Reading
from discreet.training.control.odometer_monitor import OdometerMonitor

SAMPLED: list[Event] = [Poisson(0.02, Gaussian(noise)) for noise in (0.9, 1.1, 4.0)]
PLAIN: list[Event] = [Gaussian(noise) for noise in (9.0, 17.0, 40.0)]

KINDS: list[tuple[Odometer, list[Event], tuple[float, ...]]] = [
    (RenyiOdometer(1e-5), SAMPLED, (2.7, 3.3)),
    (DoublingOdometer(1e-5, (1.5, 4.0, 17.0)), SAMPLED, (8.0, 10.0)),
    (ZcdpOdometer(1e-5, 0.1), PLAIN, (1.4, 2.2)),
    (GaussianOdometer(1e-5, 0.5), PLAIN, (3.2, 3.25)),
]


@pytest.mark.parametrize(("odometer", "events", "limits"), KINDS, ids=[each.kind for each, *_ in KINDS])
def test_blocks_are_counted_to_the_last_bit_and_end_where_single_steps_would(
    odometer: Odometer, events: list[Event], limits: tuple[float, ...]
) -> None:
    """Blocks of changing noise until the reading is reached; the reference adds, and reads, after every step."""
    chance = random.Random(5)
    ended = 0
    for most in limits:
        rule = Reading(odometer=odometer, most=most)
        dial, spent = OdometerMonitor(rule, Compose(())), rule.start()
        while True:
            block = [chance.choice(events) for _ in range(chance.randint(1, 12))]
            expected, ahead = 0, spent
            for event in block:
                ahead = rule.after(ahead, event)
                if rule.read(ahead).epsilon > most:
                    break
                spent, expected = ahead, expected + 1
            if expected == 0:
                with pytest.raises(BudgetExhausted, match="nothing was charged"):
                    dial.fitting(block)
                break
            fits = dial.fitting(block)
            assert fits == tuple(block[:expected])
            dial.charge(fits)
            assert dial.reading == rule.read(spent)
            ended += expected < len(block)
    assert ended > 0  # some block was cut short
