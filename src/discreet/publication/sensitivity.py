"""The sensitivity in a certificate: how far one unit can move the release of a step.

Noise multipliers of events are relative to this sensitivity. `discreet.verification.checks.sensitivity` checks it with
its own code.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from discreet.clipping import private_parameters
from discreet.clipping.admission.admission import private_names
from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import Event, Gaussian, flatten, steps_of
from discreet.plan.clip_rules import ClipRule
from discreet.verification.checks.sensitivity import RULES


def sensitivity_record(clipping: ClipRule, events: Event, model: nn.Module) -> dict[str, Any]:
    """The sensitivity by the rule of the plan's clipping, with what it follows from (`ClipRule.stated`).

    Where parameters are counted, `aliases` are further names of tensors that count once.
    """
    if clipping.kind not in RULES:
        raise InputError(f"no verifier knows {clipping.kind} clipping; add it to verification.checks.sensitivity")
    sizes = {name: parameter.numel() for name, parameter in private_parameters(model).items()}
    stated = clipping.stated(sorted(multipliers(events)), sizes)
    counted = {} if set(stated) == {"sensitivity"} else {"aliases": _aliases(model)}
    return {"rule": RULES[clipping.kind], **stated, **counted}


def multipliers(events: Event) -> set[float]:
    """The noise multipliers of the clipped sums among the events."""
    inner = (step for event, _ in flatten(events) for step in steps_of(event))
    return {one.noise_multiplier for one in inner if isinstance(one, Gaussian) and one.query is Query.CLIPPED_SUM}


def _aliases(model: nn.Module) -> dict[str, str]:
    """Other names of private parameters in the state dictionary, and the name under which each is trained."""
    trained = {id(parameter): name for name, parameter in private_parameters(model).items()}
    everywhere = dict(model.named_parameters(remove_duplicate=False))
    return {name: trained[id(everywhere[name])] for name in sorted(private_names(model) - set(trained.values()))}
