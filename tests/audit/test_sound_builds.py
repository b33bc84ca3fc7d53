"""Sound builds pass: every engine with every sampler, of examples and of users.

Replays have fixed seeds; noise and draws are fresh, and each of their checks fails a sound build once in 20,000 times.
"""

import itertools
from typing import Any

import pytest
from audited_builds import FAMILIES, build
from audited_samplers import SAMPLERS, UNITS

from discreet.audit import FALSE_ALARM, Audit, Outcome, audit_build
from discreet.audit.builds.laws.charges_check import charge_outcomes
from discreet.audit.builds.laws.draws_check import draw_outcomes
from discreet.audit.builds.laws.noise_law import noise_outcomes
from discreet.audit.builds.replay import Replay
from discreet.clipping import ENGINES
from discreet.plan import AdaptiveClipping, AutomaticClipping, Metric, PerLayerClipping
from discreet.sampling import IndividualSampling

LIMIT = FALSE_ALARM / 20


def findings(outcomes: list[Outcome]) -> list[str]:
    wrong = [one for one in outcomes if one.wrong or (one.p is not None and one.p < LIMIT)]
    return [f"{one.name}: {one.said} ({one.p})" for one in wrong]


@pytest.mark.parametrize(
    ("number", "engine", "sampler"), [(i, *one) for i, one in enumerate(itertools.product(ENGINES, SAMPLERS))]
)
def test_one_unit_moves_no_more_than_it_may(number: int, engine: str, sampler: str) -> None:
    """Engines and samplers meet both units in turn."""
    unit = ("example", "user")[number % 2]
    subject = build(engine=engine, **SAMPLERS[sampler], **UNITS[unit])
    replay = Replay(subject, steps=4)
    assert findings([*itertools.islice(replay.each(), 2), replay.exchanged()]) == []


@pytest.mark.parametrize(("sampler", "unit"), [*itertools.product(SAMPLERS, UNITS)])
def test_noise_draws_and_charges_are_those_of_the_plan(sampler: str, unit: str) -> None:
    subject = build(**SAMPLERS[sampler], **UNITS[unit])
    outcomes = [*noise_outcomes(subject, steps=20), *draw_outcomes(subject, steps=48), *charge_outcomes(subject)]
    assert findings(outcomes) == []
    assert not [one.notice for one in outcomes if one.notice]


RULES: dict[str, dict[str, Any]] = {
    "per layer": {"clipping": PerLayerClipping(norm=0.7)},
    "automatic": {"clipping": AutomaticClipping(norm=0.7)},
    "adaptive": {"clipping": AdaptiveClipping(initial=0.7, bit_multiplier=4.0)},
    "budgets of units": {"engine": "exact", "sampling": IndividualSampling(period=3, full=1)},
    "lanes of several processes": {"lanes": 3, "unit": "user", "rows_per_unit": 2},
    "data at sites": {"sites": 3, "unit": "user", "rows_per_unit": 2},
    "metrics": {"metrics": [Metric(kind="loss", noise=3.0, bound=2.0, every=4), Metric(kind="size", noise=5.0)]},
}


@pytest.mark.parametrize("rule", RULES)
def test_a_whole_audit_of_each_clip_rule(rule: str) -> None:
    found = audit_build(build(**RULES[rule]), effort=0.1)
    assert found.passed, str(found)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "numbers"])
def test_a_whole_audit_of_each_family(family: str) -> None:
    found = audit_build(build(family), effort=0.1)
    assert found.passed, str(found)
    assert any(one.figures.get("moved", 0) > 0.5 for one in found.outcomes)


def test_the_audit_of_a_sound_build_says_what_it_is() -> None:
    """The first tier: charges alone, and the verdict."""
    found = Audit(tuple(charge_outcomes(build())))
    assert found.passed
    assert "never a guarantee" in found.verdict
