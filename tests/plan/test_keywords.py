"""Keywords of other libraries, and forgotten ones, are told in one line and in the words of `Plan.poisson`."""

import inspect
from typing import Any

import pytest

from discreet import InputError, Plan
from discreet.plan import AdaptivePlan

GIVEN = {"population": 1000, "batch": 100, "steps": 5, "clip_norm": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("without", "more", "words"),
    [
        ("delta", {}, "Plan.poisson lacks delta; give delta=1e-5, say, far below 1 / population"),
        ("batch", {}, "Plan.poisson lacks batch; give batch=100, the expected number of units in a batch"),
        (
            "batch",
            {"batch_size": 100},
            "Plan.poisson takes no batch_size; give batch=, the expected number of units in",
        ),
        ("clip_norm", {"max_grad_norm": 1.0}, "Plan.poisson takes no max_grad_norm; give clip_norm="),
        (
            "",
            {"target_epsilon": 3.0},
            "takes no target_epsilon; give the plan without it, and then call its calibrate(",
        ),
        ("", {"epsilon": 3.0}, "takes no epsilon; give the plan without it, and then call its calibrate(epsilon=...)"),
        (
            "",
            {"nois": 3.0},
            "Plan.poisson: unknown argument 'nois'; known: population, batch, holdout, steps, epochs, del",
        ),
    ],
)
def test_of_a_plan(without: str, more: dict[str, Any], words: str) -> None:
    given = {name: value for name, value in GIVEN.items() if name != without} | more
    with pytest.raises(InputError) as refusal:
        Plan.poisson(**given)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_of_an_adaptive_plan() -> None:
    given: dict[str, Any] = {name: GIVEN[name] for name in ("population", "batch", "clip_norm", "delta")}
    with pytest.raises(InputError, match=r"^AdaptivePlan\.poisson takes no target_epsilon; give epsilon=$"):
        AdaptivePlan.poisson(**given, target_epsilon=3.0)
    with pytest.raises(
        InputError, match=r"^AdaptivePlan\.poisson lacks epsilon, policy, noise_multiplier, most_steps; give"
    ):
        AdaptivePlan.poisson(**given)


def test_the_signature_is_still_there() -> None:
    assert list(inspect.signature(Plan.poisson).parameters) == ["population", "batch", "holdout", "rest"]
