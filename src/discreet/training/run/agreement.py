"""What several processes agree on before a run: the same program on the same data, and one engine."""

from __future__ import annotations

import hashlib
import platform
import secrets
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from discreet._version import __version__
from discreet.clipping import Criterion
from discreet.clipping.digests import combined_digest, hidden_digests, state_digests, tensor_digest
from discreet.clipping.seeding import seed_torch
from discreet.core.errors import InputError
from discreet.data import Parts, PrivateData
from discreet.distributed.team import Team
from discreet.plan import AdaptivePlan, IndividualSampling, Plan
from discreet.sampling import ROOM, SAMPLERS
from discreet.training.augmented_views import transformed
from discreet.training.checklist import Checked
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.random_rows import random_rows

_AT_ONCE = 4096


def _refuse_unshared(team: Team, plan: Plan | AdaptivePlan) -> None:
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
    if team.sites is not None:
        _refuse_at_sites(plan)


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
    _refuse_unshared(team, plan)
    team.agree("number of lanes", team.lanes.count)
    team.agree("version", __version__, torch.__version__, np.__version__, platform.python_version())
    team.agree("noise or source of randomness", options.noise, randomness)
    found = team.on_rows("the checks before a run", lambda: check(options))
    team.agree("model: the kinds of its modules", *_kinds(found.copy.model))
    team.agree("loss", *_kinds(found.copy.criterion), *_tensors(found.copy.criterion))
    team.agree("model: the shapes and names of its weights", *sorted(found.declared[0]))
    team.agree("state of the model (seed torch before it is built)", *map(combined_digest, found.declared))
    team.agree("plan", found.plan.fingerprint())
    team.agree("geometry of clipping", *_scales(found))
    team.agree("declaration of canaries", found.canaries)
    if team.sites is None:
        digest = team.together("a digest of the data", lambda: _digest(found.parts.training))
        team.agree("data, or order of its rows", digest)
    else:
        _agree_at_sites(team, found.plan, found.parts)
    views = team.together("a try of the augmentation", lambda: _views(found))
    team.agree("augmentation of the data", views)
    named = team.told("the engine", lambda: found.preflight.engine.name)
    found = team.on_rows(
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
    """The settings that decide in which order numbers are added up."""
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
    digests = state_digests(criterion) | hidden_digests(criterion) if isinstance(criterion, nn.Module) else {}
    return [f"{name} {digest}" for name, digest in sorted(digests.items())]


def _scales(found: Checked) -> list[str]:
    """Digests of the scales that gradients are divided by before they are clipped."""
    clips = found.clipping.preflight_clips()
    return [f"{name} {tensor_digest(one)}" for clip in clips for name, one in sorted((clip.scales or {}).items())]


def _views(found: Checked) -> str:
    """A digest of the augmented views of random rows."""
    data = found.parts.training
    rows = random_rows(found.copy.model, data, None, raw=True).inputs.cpu()
    with torch.random.fork_rng():
        seed_torch(0)
        views = transformed(data, rows.repeat_interleave(data.views, 0))
    return f"{data.views} {tensor_digest(torch.view_as_real(views) if views.is_complex() else views)}"


def _digest(data: PrivateData, rows: range | None = None, salt: str = "") -> str:
    """A digest of the data, or of these rows, as this process has it; it is compared with others, and kept by
    nobody."""
    found = hashlib.sha256(salt.encode())
    if data.groups is not None and rows is None:
        found.update(data.groups.order.tobytes() + data.groups.starts.tobytes())
    rows = range(data.rows) if rows is None else rows
    with torch.random.fork_rng():
        for start in range(rows.start, rows.stop, _AT_ONCE):
            seed_torch(start - rows.start)  # rows may draw from torch's generator
            for part in data.fetch(np.arange(start, min(start + _AT_ONCE, rows.stop))):
                values = part.detach().cpu().contiguous()
                found.update(f"{values.dtype} {tuple(values.shape)}".encode())
                found.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _refuse_at_sites(plan: Plan | AdaptivePlan) -> None:
    """Refuse plans that need the rows of all sites together."""
    what = None
    if not plan.sampling.INDEPENDENT:
        known = ", ".join(kind for kind, record in SAMPLERS.items() if record.INDEPENDENT)
        what = f"the sampler {plan.sampling.kind!r} draws units that depend on each other (those that do not: {known})"
    elif plan.before:
        what = "queries before the first step are asked of all rows"
    if what is not None:
        raise InputError(
            f"{what}, and no process has the rows of all sites; change the plan, or bring the data together"
        )


def _agree_at_sites(team: Team, plan: Plan | AdaptivePlan, parts: Parts) -> None:
    """`InputError` in all processes unless their sites have rows of one form, not more units than the plan allows, to
    train on and held out, and no two the same rows.

    The other processes see how many units there are at the sites of each, and digests under a salt for this once.
    """
    data, held = parts.training, 0 if parts.held_out is None else len(parts.held_out)
    inputs, targets = team.on_rows("the first row", data.first)
    shapes = [[str(part.dtype), *part.shape[1:]] for part in (inputs, targets)]
    team.agree("form of rows", data.kind, *shapes, data.views, data.groups is None)
    told = team.ranks.all_facts("the units at the sites", [len(data), held])
    trained, held = (sum(one[place] for one in told) for place in (0, 1))
    if parts.held_out is not None and held == 0:
        raise InputError("the holdout takes no row of any site and leaves a part empty; take another share")
    room = [plan.units_of(one)[0] / plan.units_of(one)[1] for one in plan.metrics if one.rows == "holdout"]
    if trained > plan.sampling.sizes(plan.population)[1] or any(held > ROOM * most for most in room):
        raise InputError(
            "the sites have more units together than the declared population allows; give each row at one site alone, "
            "and declare a population that is public and large enough. Nothing was charged"
        )
    salt = team.told("a salt", lambda: secrets.token_hex(16))
    digests = team.on_rows("digests of the sites", lambda: _digests(data, salt))
    at = dict[str, str]()
    for one in team.ranks.all_facts("digests of the sites", digests):
        for number, digest in one.items():
            if digest in at:
                raise InputError(f"sites {at[digest]} and {number} have the same rows; give each row at one site")
            at[digest] = number


def _digests(data: PrivateData, salt: str) -> dict[str, str]:
    """A digest of the rows of each site, by its number."""
    assert data.sites is not None
    ends = np.arange(data.rows + 1) if data.groups is None else data.groups.starts
    rows = {number: range(int(ends[one.start]), int(ends[one.stop])) for number, one in data.sites.ranges.items()}
    return {str(number): _digest(data, one, salt) for number, one in rows.items()}
