"""Every sampler trains and verifies; an epoch or period that is interrupted stays charged and is abandoned."""

from pathlib import Path

import pytest
from crash_runs import CRASH, SAMPLINGS, STEPS, findings, journal, plan
from crash_server import Server

from discreet.publication import verify

PERIOD = 5
UNEQUAL = ((2.0, 5), (1.0, 5))
"""Allocation and budgets of single units need equal noise inside a period."""
EQUAL = ((2.0, 10),)
"""Correlated noise needs equal noise in all of them."""


def phases_for(sampling: str) -> tuple[tuple[float, int], ...]:
    return EQUAL if sampling == "cyclic" else UNEQUAL


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_sampler_trains_and_its_certificate_verifies(server: Server, tmp_path: Path, sampling: str) -> None:
    phases = phases_for(sampling)
    code, said = server(tmp_path, phases=phases, sampling=sampling, publish=True)
    assert (code, said) == (0, f"done, {STEPS} charged")
    found = findings(tmp_path, plan(phases, sampling=sampling))
    assert (found.charged, found.released, found.faults) == (STEPS, STEPS, {})
    checked = verify(tmp_path / "out")
    assert checked.accepted, checked.checks


@pytest.mark.parametrize("sampling", ["shuffle", "allocation", "cyclic", "individual"])
@pytest.mark.parametrize(
    ("place", "visit", "lost"),
    [
        ("reserve: after commit", 1, 5),
        ("draw: before", 1, 5),
        ("draw: after", 1, 5),
        ("chunk: after", 1, 5),
        ("noise: after", 2, 3),
        ("optimizer: after", 5, 0),
    ],
)
def test_an_interrupted_period_stays_charged_whole_and_is_abandoned(
    server: Server, tmp_path: Path, sampling: str, place: str, visit: int, lost: int
) -> None:
    phases = phases_for(sampling)
    planned = plan(phases, sampling=sampling)
    code, said = server(tmp_path, phases=phases, sampling=sampling, fault=(place, visit))
    assert code == CRASH, said
    found = findings(tmp_path, planned)
    assert (found.charged, found.charged - found.released, found.faults) == (PERIOD, lost, {})

    code, said = server(tmp_path, phases=phases, sampling=sampling, resume=True, publish=True)
    assert (code, said) == (0, f"done, {STEPS} charged")
    later = [release for release in journal(tmp_path) if release["attempt"] == 1]
    assert [release["position"] for release in later] == list(range(PERIOD, STEPS))
    found = findings(tmp_path, planned)
    assert (found.charged, found.charged - found.released, found.faults) == (STEPS, lost, {})
    assert verify(tmp_path / "out").accepted


def test_an_epoch_may_change_its_noise_inside_but_an_allocation_may_not(server: Server, tmp_path: Path) -> None:
    code, said = server(tmp_path / "shuffle", sampling="shuffle", publish=True)
    assert (code, said) == (0, f"done, {STEPS} charged")
    assert verify(tmp_path / "shuffle" / "out").accepted
    code, said = server(tmp_path / "allocation", sampling="allocation")
    assert code == 1
    assert "the same noise at every step of a period" in said
