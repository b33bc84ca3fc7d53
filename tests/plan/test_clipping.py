"""Ways to clip as plans hold them: what is refused, what they cost, and the arithmetic of adaptive clipping."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import Gaussian, InputError, Plan, Poisson, Repeat, guarantee
from discreet.accounting import Compose
from discreet.accounting.schedules import parse
from discreet.core.adjacency import Query
from discreet.plan import (
    AdaptiveClipping,
    AdaptivePlan,
    AutomaticClipping,
    BoxClipping,
    Controls,
    EllipsoidClipping,
    FlatClipping,
    GroupClipping,
    PerLayerClipping,
    ScheduledClipping,
)

NAMES = ["0.weight", "0.bias", "2.inner.weight", "scale"]


def make(**changes: Any) -> Plan:
    settings: dict[str, Any] = {"population": 1000, "batch": 100, "steps": 20, "delta": 1e-5}
    return Plan.poisson(**(settings | changes))


SPECS: dict[str, dict[str, Any]] = {
    "flat": {"kind": "flat", "norm": 1.0},
    "scheduled": {"kind": "scheduled", "phases": [{"norm": 2.0, "steps": 5}, {"norm": 1.0, "steps": 15}]},
    "automatic": {"kind": "automatic"},
    "per_layer": {"kind": "per_layer", "norm": 0.5},
    "groups": {"kind": "groups", "norms": {"0.*": 1.0, "2.*": 0.5}},
    "adaptive": {"kind": "adaptive", "initial": 1.0, "bit_multiplier": 30.0},
    "ellipsoid": {"kind": "ellipsoid", "norm": 2.0},
    "box": {"kind": "box", "scales": "adadp"},
}


@pytest.mark.parametrize("kind", SPECS)
def test_a_policy_costs_nothing_and_survives_json(kind: str) -> None:
    plan = make(clipping=SPECS[kind], noise_multiplier=2.0)
    assert plan.clipping.kind == kind
    assert plan.event() == make(clip_norm=1.0, noise_multiplier=2.0).event()
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert plan.fingerprint() != make(clip_norm=3.0, noise_multiplier=2.0).fingerprint()


@pytest.mark.parametrize(
    ("clipping", "fault"),
    [
        ({"kind": "flat", "norm": 0}, "flat.norm"),
        ({"kind": "flat", "norm": 1.0, "gamma": 0.1}, "unknown key 'flat.gamma'; known: kind, norm"),
        ({"kind": "sideways"}, "clipping: unknown kind 'sideways'; known: 'flat', "),
        ({"norm": 1.0}, "kind"),
        ({"kind": "automatic", "gamma": 0}, "gamma"),
        ({"kind": "automatic", "norm": 1e28, "gamma": 1e-8}, "norm / gamma must be at most 1e30"),
        ({"kind": "groups", "norms": {}}, "norms"),
        ({"groups": {"0.*": -1.0}}, "norms"),
        ({"per_layer": math.nan}, "norm"),
        ({"kind": "scheduled", "phases": [{"norm": 1.0, "steps": 19}]}, "cover 19 steps, but the plan has 20"),
        ({"kind": "adaptive", "initial": 1.0, "bit_multiplier": 1.0}, "must be above the noise multiplier"),
        ({"kind": "adaptive", "initial": 1.0, "bit_multiplier": 9, "quantile": 1.0}, "quantile"),
        ({"kind": "adaptive", "initial": 2.0, "bit_multiplier": 9, "cap": 1.5}, "initial must be from floor"),
        ({"kind": "adaptive", "initial": 2.0}, "bit_multiplier"),
        ({"kind": "ellipsoid", "norm": math.inf}, "norm"),
        (None, "give either clip_norm or clipping"),
    ],
)
def test_what_cannot_be_is_refused_and_named(clipping: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault) as caught:
        make(clipping=clipping)
    assert "\n" not in str(caught.value)


def test_both_arguments_are_refused_and_shortcuts_are_what_they_are_short_for() -> None:
    with pytest.raises(InputError, match="give either clip_norm or clipping"):
        make(clip_norm=1.0, clipping=FlatClipping(norm=1.0))
    assert make(clipping={"per_layer": 0.5}).clipping == PerLayerClipping(norm=0.5)
    assert make(clipping={"groups": {"0.*": 1.0}}).clipping == GroupClipping(norms={"0.*": 1.0})
    assert make(clip_norm=2.0).clipping == make(clipping=FlatClipping(norm=2.0)).clipping


def test_a_clip_norm_follows_a_schedule_a_list_or_neither() -> None:
    by_list = make(clip_norm=[(2.0, 5), (1.0, 15)]).clipping
    assert isinstance(by_list, ScheduledClipping)
    assert [by_list.norm_at(step) for step in (0, 4, 5, 19)] == [2.0, 2.0, 1.0, 1.0]
    with pytest.raises(InputError, match="end 1 steps before"):
        by_list.norm_at(20)
    by_schedule = make(clip_norm=parse("exponential:initial=2,rate=0.5")).clipping  # an epoch has ten steps
    assert isinstance(by_schedule, ScheduledClipping)
    assert [by_schedule.norm_at(step) for step in (0, 9)] == [2.0, 2.0]
    assert by_schedule.norm_at(10) == pytest.approx(2 * math.exp(-0.5))
    for wrong in ([(1.0, 19)], [(0.0, 20)], [1.0], "one"):
        with pytest.raises(InputError, match="plan"):
            make(clip_norm=wrong)


def test_groups_part_the_parameters_or_are_refused_by_the_name_of_the_parameter() -> None:
    spec = GroupClipping(norms={"0.*": 1.0, "2.*": 0.5, "scale": 2.0})
    assert spec.groups(NAMES) == {
        "0.*": (1.0, ["0.weight", "0.bias"]),
        "2.*": (0.5, ["2.inner.weight"]),
        "scale": (2.0, ["scale"]),
    }
    with pytest.raises(InputError, match=r"'scale' is in no group"):
        GroupClipping(norms={"0.*": 1.0, "2.*": 0.5}).groups(NAMES)
    with pytest.raises(InputError, match=r"'0.bias' is in 2 groups \(\*, 0.b\*\)"):
        GroupClipping(norms={"*": 1.0, "0.b*": 0.5}).groups(NAMES[1:])
    with pytest.raises(InputError, match=r"no parameter is in the group '3.\*'"):
        GroupClipping(norms={"*": 1.0, "3.*": 0.5}).groups(NAMES)


def test_each_module_that_owns_parameters_is_a_group() -> None:
    assert PerLayerClipping(norm=0.5).groups(NAMES) == {
        "0": (0.5, ["0.weight", "0.bias"]),
        "2.inner": (0.5, ["2.inner.weight"]),
        "": (0.5, ["scale"]),
    }


@given(z=st.floats(0.05, 50.0), above=st.floats(1.0001, 1e4), norm=st.floats(1e-4, 1e4))
def test_gradient_and_bit_together_have_the_multiplier_of_the_event(z: float, above: float, norm: float) -> None:
    """1/z^2 = 1/z_g^2 + 1/s^2, with z_g and s read off the noise that the joint release gets."""
    spec = AdaptiveClipping(initial=norm, bit_multiplier=z * above)
    h = spec.bit(norm, z)
    noise = z * math.hypot(norm, h)
    assert noise / h == pytest.approx(z * above, rel=1e-6)
    assert (noise / norm) ** -2 + (z * above) ** -2 == pytest.approx(z**-2, rel=1e-9)
    assert noise / norm == pytest.approx((z**-2 - (z * above) ** -2) ** -0.5, rel=1e-5)


@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out"])
def test_the_joint_event_costs_what_gradient_and_centred_bit_on_one_batch_cost(adjacency: Any) -> None:
    """Against the accountant's own theorem for several queries on one Poisson batch (and its ratio of a bit)."""
    z, s, norm = 1.1, 4.0, 0.7
    spec = AdaptiveClipping(initial=norm, bit_multiplier=s)
    alone = z * math.hypot(norm, spec.bit(norm, z)) / norm
    apart = Poisson(0.1, Compose((Gaussian(alone), Gaussian(s, Query.CENTRED_BIT))))
    both = guarantee(Repeat(apart, 20), 1e-5, adjacency)
    plan = make(clipping=spec, noise_multiplier=z, adjacency=adjacency)
    assert plan.guarantee().epsilon == pytest.approx(both.epsilon, rel=2e-3)
    free = guarantee(Repeat(Poisson(0.1, Gaussian(alone)), 20), 1e-5, adjacency)
    assert plan.guarantee().epsilon > 1.02 * free.epsilon  # the bit is not free


def test_calibration_refuses_noise_beyond_that_of_the_bit() -> None:
    spec = AdaptiveClipping(initial=1.0, bit_multiplier=2.0)
    assert make(clipping=spec).calibrate(3.0).noise == make(clip_norm=1.0).calibrate(3.0).noise
    with pytest.raises(InputError, match="must be above the noise multiplier"):
        make(clipping=spec).calibrate(0.2)


def test_an_adaptive_plan_checks_what_a_policy_returns() -> None:
    plan = AdaptivePlan.poisson(
        population=1000,
        batch=100,
        epsilon=3.0,
        delta=1e-5,
        clipping=AdaptiveClipping(initial=1.0, bit_multiplier=5.0),
        policy=lambda phase, history: history.controls,
        noise_multiplier=2.0,
        most_steps=50,
    )
    assert plan.checked(Controls(4.9, 100.0)) == Controls(4.9, 100.0)
    with pytest.raises(InputError, match="must be above the noise multiplier"):
        plan.checked(Controls(5.0, 100.0))


def test_the_norm_follows_the_quantile_within_its_bounds() -> None:
    """Equation 3 of Andrew et al. 2021: C exp(-eta (b - gamma)), b the share of gradients that are shorter."""
    spec = AdaptiveClipping(initial=1.0, bit_multiplier=5.0, quantile=0.7, rate=0.2, floor=0.5, cap=2.0)
    share = 0.9  # of 40 units, 36 are shorter: centred bits add up to 18 - 2
    assert spec.after(1.0, 16.0, 40.0) == pytest.approx(math.exp(-0.2 * (share - 0.7)))
    assert spec.after(1.0, 8.0, 40.0) == pytest.approx(1.0)
    for bits in (1e300, 1e6):
        assert spec.after(1.0, bits, 40.0) == 0.5
        assert spec.after(1.0, -bits, 40.0) == 2.0


@given(norm=st.floats(0.5, 2.0), bits=st.floats(-1e308, 1e308), batch=st.floats(1e-3, 1e6))
def test_no_noise_takes_the_norm_out_of_its_bounds(norm: float, bits: float, batch: float) -> None:
    spec = AdaptiveClipping(initial=1.0, bit_multiplier=5.0, floor=0.5, cap=2.0)
    assert 0.5 <= spec.after(norm, bits, batch) <= 2.0


def test_only_some_kinds_have_one_norm_to_start_from() -> None:
    specs = (AutomaticClipping(norm=2.0), BoxClipping(), EllipsoidClipping(norm=2.0), PerLayerClipping(norm=2.0))
    assert [spec.first_norm for spec in specs] == [2.0, None, None, None]
