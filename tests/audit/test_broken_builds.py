"""Every broken build is found by the check made for it. A check fails a sound build once in 20,000 times."""

import itertools

import pytest
from audit_findings import findings, found
from audited_builds import build
from broken_builds import all_broken
from broken_sums import class_weighs_ten

QUICK = ("noise_95", "no_noise_on_one_number", "noise_reused_once", "clipped_to_a_little_more", "half_charged")
"""The first tier."""


@pytest.mark.parametrize("name", QUICK)
def test_a_broken_build_is_found(name: str) -> None:
    assert found(all_broken()[name])


@pytest.mark.parametrize("name", [name for name in all_broken() if name not in QUICK])
def test_each_broken_build_is_found(name: str) -> None:
    assert found(all_broken()[name])


@pytest.mark.parametrize("label", [4, 9])
def test_a_class_that_weighs_ten_times_as_much_is_found(label: int) -> None:
    """No other canary has these labels."""
    with class_weighs_ten(label):
        names = [one.name for one in findings(build(engine="reference"), "replay")]
    assert names
    assert all(one.startswith(f"replay/loud, label {label}") for one in names)


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
