"""What a certificate says of clipping: how far one unit can move what a step releases.

Noise multipliers of events are relative to this sensitivity. `discreet.verification.checks.sensitivity` checks what is
written here with code of its own.
"""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from discreet.clipping import private_parameters
from discreet.clipping.admission.admission import private_names
from discreet.core.adjacency import Query
from discreet.core.events import Event, Gaussian, flatten, steps_of
from discreet.plan import AdaptiveClipping, BoxClipping, GroupClipping, PerLayerClipping, ScheduledClipping
from discreet.plan.clipping import AnyClipping
from discreet.verification.checks.sensitivity import RULES


def sensitivity_record(clipping: AnyClipping, events: Event, model: nn.Module) -> dict[str, Any]:
    """The sensitivity by the rule of the plan's clipping, with what it follows from.

    | kind               | `sensitivity` is                                                                 |
    |--------------------|----------------------------------------------------------------------------------|
    | scheduled          | a list of [clip norm, steps]                                                     |
    | adaptive           | a list of [noise multiplier, sensitivity / clip norm of the step]                |
    | all others         | a number; `groups` and `coordinates` say where it comes from                     |

    `aliases` are further names of tensors that count once.
    """
    record: dict[str, Any] = {"rule": RULES[clipping.kind]}
    parameters = private_parameters(model)
    match clipping:
        case ScheduledClipping():
            record["sensitivity"] = [[phase.norm, phase.steps] for phase in clipping.phases]
        case AdaptiveClipping():
            used = sorted(multipliers(events))
            record["sensitivity"] = [[z, math.hypot(1.0, clipping.bit(1.0, z))] for z in used]
        case GroupClipping() | PerLayerClipping():
            groups = clipping.groups(list(parameters))
            record["groups"] = {key: {"norm": norm, "parameters": names} for key, (norm, names) in groups.items()}
            record["sensitivity"] = math.hypot(*(norm for norm, _ in groups.values()))
            record["aliases"] = _aliases(model)
        case BoxClipping():
            record["coordinates"] = sum(parameter.numel() for parameter in parameters.values())
            record["sensitivity"] = math.sqrt(record["coordinates"])
            record["aliases"] = _aliases(model)
        case _:
            record["sensitivity"] = clipping.norm
    return record


def multipliers(events: Event) -> set[float]:
    """The noise multipliers of the clipped sums among the events."""
    inner = (step for event, _ in flatten(events) for step in steps_of(event))
    return {one.noise_multiplier for one in inner if isinstance(one, Gaussian) and one.query is Query.CLIPPED_SUM}


def _aliases(model: nn.Module) -> dict[str, str]:
    """Other names of private parameters in the state dictionary, and the name under which each is trained."""
    trained = {id(parameter): name for name, parameter in private_parameters(model).items()}
    everywhere = dict(model.named_parameters(remove_duplicate=False))
    return {name: trained[id(everywhere[name])] for name in sorted(private_names(model) - set(trained.values()))}
