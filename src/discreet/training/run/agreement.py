"""What several processes agree on before a run: the same program on the same data, and one engine."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from discreet._version import __version__
from discreet.clipping import Criterion
from discreet.clipping.digests import combined_digest, state_digests, tensor_digest
from discreet.clipping.seeding import seed_torch
from discreet.core.errors import InputError
from discreet.data import PrivateData
from discreet.distributed.team import Team
from discreet.plan import AdaptivePlan, IndividualSampling, Plan
from discreet.training.augmented_views import transformed
from discreet.training.checklist import Checked
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.random_rows import random_rows

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
    team: Team,
    plan: Plan | AdaptivePlan,
    options: EngineOptions,
    randomness: str,
    check: Callable[[EngineOptions], Checked],
) -> Checked:
    """The checks of a run, which `check` makes with the engine that `options` ask for, in every process. `randomness`:
    the kind of its source.

    The first process decides on the engine, as times differ; its rounding is what the least exact process has measured,
    and a chunk fits the process with least memory. `InputError` in all of them if they were given different things.
    """
    if team.lanes is None:
        return check(options)
    refuse_unshared(team, plan)
    team.agree("number of lanes", team.lanes.count)
    team.agree("version", __version__, torch.__version__, np.__version__, platform.python_version())
    team.agree("noise or source of randomness", options.noise, randomness)
    found = team.together("the checks before a run", lambda: check(options))
    team.agree("model: the kinds of its modules", *_kinds(found.copy.model))
    team.agree("loss", *_kinds(found.copy.criterion), *_tensors(found.copy.criterion))
    team.agree("model: the shapes and names of its weights", *sorted(found.declared[0]))
    team.agree(
        "state of the model (seed torch before it is built)",
        combined_digest(found.declared[0]),
    )
    team.agree("plan", found.plan.fingerprint())
    digest = team.together("a digest of the data", lambda: _digest(found.parts.training))
    team.agree("data, or order of its rows", digest)
    views = team.together("a try of the augmentation", lambda: _views(found))
    team.agree("augmentation of the data", views)
    named = team.told("the engine", lambda: found.preflight.engine.name)
    found = team.together(
        "the engine", lambda: found if found.preflight.engine.name == named else check(replace(options, name=named))
    )
    if found.preflight.engine.error is None:  # no slack covers another order of addition on another machine
        team.agree("number of threads or kind of processor, as the engine counts on equal bits", *_machine(found))
    preflight = found.preflight
    told = team.ranks.all_facts("rounding and chunks", [preflight.engine.float_bits, preflight.chunk])
    bits = min((one[0] for one in told if one[0] is not None), default=None)
    plain = None if preflight.plain is None else replace(preflight.plain, float_bits=bits)
    engine, chunk = replace(preflight.engine, float_bits=bits), min(one[1] for one in told)
    return replace(found, preflight=replace(preflight, engine=engine, chunk=chunk, plain=plain))


def _machine(found: Checked) -> list[object]:
    """What decides in which order numbers are added up."""
    device = next(found.copy.model.parameters()).device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    return [torch.get_num_threads(), platform.machine(), device.type, name]


def _kinds(model: Criterion) -> list[str]:
    """The kinds of the modules of a model or a loss; its name if it is a function. What they compute is compared before
    every charge (`Team.compare`)."""
    if not isinstance(model, nn.Module):
        return [getattr(model, "__qualname__", type(model).__qualname__)]
    return [f"{name} {type(one).__qualname__}" for name, one in model.named_modules()]


def _tensors(criterion: Criterion) -> list[str]:
    """Digests of the tensors of a loss, such as the weights of classes."""
    digests = state_digests(criterion) if isinstance(criterion, nn.Module) else {}
    return [f"{name} {digest}" for name, digest in sorted(digests.items())]


def _views(found: Checked) -> str:
    """A digest of the augmented views of random rows."""
    data = found.parts.training
    rows = random_rows(found.copy.model, data, None, raw=True).inputs.cpu()
    with torch.random.fork_rng():
        seed_torch(0)
        views = transformed(data, rows.repeat_interleave(data.views, 0))
    return f"{data.views} {tensor_digest(torch.view_as_real(views) if views.is_complex() else views)}"


def _digest(data: PrivateData) -> str:
    """A digest of the data as this process has it; it is compared with that of the others, and kept by nobody."""
    found = hashlib.sha256()
    if data.groups is not None:
        found.update(data.groups.order.tobytes() + data.groups.starts.tobytes())
    with torch.random.fork_rng():
        for start in range(0, data.rows, _AT_ONCE):
            seed_torch(start)  # rows may draw from torch's generator
            for part in data.fetch(np.arange(start, min(start + _AT_ONCE, data.rows))):
                values = part.detach().cpu().contiguous()
                found.update(f"{values.dtype} {tuple(values.shape)}".encode())
                found.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
