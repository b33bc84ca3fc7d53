"""Every broken build is found by the check made for it. A check fails a sound build once in 20,000 times."""

import itertools

import pytest
from audit_findings import findings, found
from broken_builds import all_broken

QUICK = ("noise_95", "no_noise_on_one_number", "noise_reused_once", "clipped_to_a_little_more", "half_charged")
"""The first tier."""


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
