"""Builds with an adaptive clip norm: the audit knows which norm each step had, also where it is led or held."""

import numpy as np
from audited_builds import build
from broken_clip_rules import ADAPTIVE

from discreet.audit.builds.audit_stream import FreshNoise
from discreet.audit.builds.following import follow
from discreet.audit.builds.small_plans import small
from discreet.plan import AdaptiveClipping, PoissonSampling


def test_a_run_that_is_led_has_the_norms_of_the_other() -> None:
    """Its own bits have other noise, and are not what its norm follows."""
    rule = AdaptiveClipping(initial=0.7, bit_multiplier=4.0, rate=1.0)
    subject = build(clipping=rule)
    plan = small(subject.plan, PoissonSampling(rate=0.4), 12, 10, clipping=rule)
    rows, traces = subject.maker.units(12), []
    for lead in (None, 0):
        with subject.training(plan, rows, stream=FreshNoise(3)) as training:
            traces.append(follow(training, None if lead is None else traces[lead]))
    one, other = traces
    assert one.bits != other.bits
    np.testing.assert_array_equal(one.sensitivities(), other.sensitivities())
    assert len(set(one.sensitivities())) > 1


def test_a_run_that_is_held_keeps_its_first_norm() -> None:
    subject = build(clipping=ADAPTIVE)
    plan = small(subject.plan, PoissonSampling(rate=0.4), 12, 6, clipping=ADAPTIVE)
    with subject.training(plan, subject.maker.units(12)) as training:
        trace = follow(training, still=True)
    assert len(set(trace.sensitivities())) == 1
    assert any(trace.bits)
