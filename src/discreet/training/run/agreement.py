"""What several processes agree on before a run: the same program on the same data, and one engine."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import torch

from discreet.clipping.digests import combined_digest
from discreet.core.errors import InputError
from discreet.data import PrivateData
from discreet.distributed.team import Team
from discreet.plan import AdaptivePlan, IndividualSampling, Plan
from discreet.training.checklist import Checked
from discreet.training.preflight.engine_options import EngineOptions

_AT_ONCE = 4096


def refuse_unshared(team: Team, plan: Plan | AdaptivePlan) -> None:
    """Refuse plans whose steps depend on decisions or accounts that are kept in one process."""
    if team.lanes is None:
        return
    what = None
    if isinstance(plan, AdaptivePlan):
        what = "an adaptive plan decides on its steps as it goes"
    elif isinstance(plan.sampling, IndividualSampling):
        what = "budgets of single units are kept where the unit is computed"
    elif plan.odometer is not None:
        what = "an odometer reads what was charged so far"
    if what is not None:
        raise InputError(f"{what}, which several processes cannot share yet; train in one process, without shard")


def agreed(
    team: Team, plan: Plan | AdaptivePlan, options: EngineOptions, check: Callable[[EngineOptions], Checked]
) -> Checked:
    """The checks of a run, which `check` makes with the engine that `options` ask for, in every process.

    The first process decides on the engine, as times differ; its rounding is what the least exact process has measured,
    and a chunk fits the process with least memory. `InputError` in all of them if they were given different things.
    """
    if team.lanes is None:
        return check(options)
    refuse_unshared(team, plan)
    team.agree("number of lanes", team.lanes.count)
    team.agree("version", version("discreet"), torch.__version__, np.__version__, platform.python_version())
    found = team.together("the checks before a run", lambda: check(options))
    kinds = [type(one).__qualname__ for one in (*found.copy.model.modules(), found.copy.criterion)]
    team.agree("model or loss", *kinds, *sorted(found.declared[0]))
    team.agree(
        "state of the model (seed torch before it is built)",
        combined_digest(found.declared[0]),
    )
    team.agree("plan", found.plan.fingerprint())
    team.agree("data, or order of its rows", _digest(found.parts.training))
    named = team.told("the engine", lambda: found.preflight.engine.name)
    found = team.together(
        "the engine", lambda: found if found.preflight.engine.name == named else check(replace(options, name=named))
    )
    preflight = found.preflight
    told = team.ranks.all_facts("rounding and chunks", [preflight.engine.float_bits, preflight.chunk])
    bits = min((one[0] for one in told if one[0] is not None), default=None)
    plain = None if preflight.plain is None else replace(preflight.plain, float_bits=bits)
    engine, chunk = replace(preflight.engine, float_bits=bits), min(one[1] for one in told)
    return replace(found, preflight=replace(preflight, engine=engine, chunk=chunk, plain=plain))


def _digest(data: PrivateData) -> str:
    """A digest of the data as this process has it; it is compared with that of the others, and kept by nobody."""
    found = hashlib.sha256()
    if data.groups is not None:
        found.update(data.groups.order.tobytes() + data.groups.starts.tobytes())
    with torch.random.fork_rng():
        for start in range(0, data.rows, _AT_ONCE):
            torch.manual_seed(start)  # rows may draw from torch's generator
            for part in data.fetch(np.arange(start, min(start + _AT_ONCE, data.rows))):
                values = part.detach().cpu().contiguous()
                found.update(f"{values.dtype} {tuple(values.shape)}".encode())
                found.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
