"""Every broken build is found by the check made for it. A check fails a sound build once in 20,000 times."""

import itertools
from collections.abc import Iterator

import pytest
from broken_builds import Broken, all_broken

from discreet.audit import FALSE_ALARM, Outcome, Subject
from discreet.audit.builds.laws.charges_check import charge_outcomes
from discreet.audit.builds.laws.draws_check import draw_outcomes
from discreet.audit.builds.laws.metrics_check import metric_outcomes
from discreet.audit.builds.laws.noise_law import noise_outcomes
from discreet.audit.builds.replay import Replay

LIMIT = FALSE_ALARM / 20
QUICK = ("noise_95", "no_noise_on_one_number", "noise_reused_once", "clipped_to_a_little_more", "half_charged")
"""The first tier."""

CHECKS = {
    "replay": lambda subject: Replay(subject, steps=4).each(),
    "noise": lambda subject: noise_outcomes(subject, steps=20),
    "draws": lambda subject: draw_outcomes(subject, steps=64),
    "charges": charge_outcomes,
    "metrics": metric_outcomes,
}


def findings(subject: Subject, check: str) -> Iterator[Outcome]:
    """What one kind of check finds, as soon as it does."""
    return (one for one in CHECKS[check](subject) if one.wrong or (one.p is not None and one.p < LIMIT))


def found(one: Broken) -> bool:
    with one.plant():
        subject = one.subject()
        check = one.found_by.partition("/")[0]
        if one.notice:
            outcomes = CHECKS[check](subject)
            return any(o.notice and o.name.startswith(one.found_by) for o in outcomes)
        return any(o.name.startswith(one.found_by) for o in findings(subject, check))


@pytest.mark.parametrize("name", QUICK)
def test_a_broken_build_is_found(name: str) -> None:
    assert found(all_broken()[name])


@pytest.mark.parametrize("name", [name for name in all_broken() if name not in QUICK])
def test_each_broken_build_is_found(name: str) -> None:
    assert found(all_broken()[name])


def test_more_noise_is_no_finding() -> None:
    one = all_broken()["noise_twice"]
    with one.plant():
        assert list(findings(one.subject(), "noise")) == []


def test_the_same_build_is_sound_where_nothing_is_planted() -> None:
    """So what finds a broken build is what was planted."""
    one = all_broken()["noise_95"]
    for check in ("noise", "charges"):
        assert list(findings(one.subject(), check)) == []
    assert list(itertools.islice(findings(one.subject(), "replay"), 1)) == []
