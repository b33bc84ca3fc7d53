"""Warm starts of runs: which earlier runs released the weights at the start, and what this one will have released."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from discreet.certificate import earlier_runs
from discreet.certificate.earlier_runs import EarlierRun, together
from discreet.clipping.admission.admission import private_names
from discreet.clipping.digests import hidden_digests, tensor_digest
from discreet.core.disk import write_durably
from discreet.core.errors import InputError
from discreet.plan import AdaptivePlan, Plan
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.trained import Mechanism, Trained

_log = logging.getLogger("discreet")
_FILE = "warm_start.json"
_WEIGHTS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def started_from(model: nn.Module, declared: Mapping[str, str]) -> tuple[EarlierRun, ...]:
    """The runs that released weights of `model`, or a center in it. `declared`: digests of its state, in which weights
    below adapters have one digest together."""
    if not earlier_runs.remembered():
        return ()
    plain = [one for one in model.parameters() if type(one) is nn.Parameter and one.dtype in _WEIGHTS]
    beside = hidden_digests(model).values()
    return earlier_runs.released_by([*declared.values(), *beside, *map(tensor_digest, plain)])


def report(earlier: Sequence[EarlierRun]) -> None:
    """Say that training starts from what other private runs released, before a step is charged."""
    if earlier:
        _log.warning(
            "training starts from weights that other private runs released: %s. What a person in the data of several "
            "runs gives away adds up; the certificate names those runs, and is about its own steps alone. For one "
            "budget over all, name the data set in each: run=RunOptions(ledger=..., dataset_id=...)",
            ", ".join(one.line for one in earlier),
        )


def kept(folder: Path) -> tuple[EarlierRun, ...]:
    """The runs that the run in this folder started from."""
    try:
        found = json.loads((folder / _FILE).read_text())
        return EarlierRun.named([*found] if isinstance(found, list) else [found])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError):
        raise InputError(f"cannot read {folder / _FILE}; start a new run") from None


def others(folder: Path, earlier: Sequence[EarlierRun]) -> tuple[EarlierRun, ...]:
    """The runs that the run in this folder started from, now (`earlier`) or at a start before. It is none of them: when
    it goes on, its model has the center that it has bought itself."""
    own = RunFolder(folder).run
    return tuple(one for one in together(kept(folder), earlier) if one.run != own)


def keep(folder: Path, earlier: Sequence[EarlierRun]) -> None:
    """Keep in the folder of a run which runs it started from, for whoever goes on with it, and say so."""
    found = others(folder, earlier)
    if found:
        write_durably(folder / _FILE, (json.dumps([asdict(one) for one in found]) + "\n").encode())
    report(found)


def remember(trained: Trained) -> Trained:
    """Note that the weights of this result are released, and its center; returns it. Without an entry in a ledger it is
    no release."""
    if not trained.entries:
        return trained
    own = _this_run(trained.entries[0].run, trained.plan, trained.mechanism)
    moved = [digest for name, digest in trained.final.items() if digest != trained.initial.get(name)]
    earlier_runs.remember(moved, together((own,), trained.warm_start))
    earlier_runs.remember(_bought(trained.released), (own,))
    return trained


def remember_left(
    folder: RunFolder, model: nn.Module, initial: Mapping[str, str], plan: Plan | AdaptivePlan, mechanism: Mechanism
) -> None:
    """Note that the run in `folder` leaves weights in `model`, if it has moved them, and the center that it has bought:
    it need not have ended well.

    It never fails, as there may be an error to be heard already. `initial`: digests at the start.
    """
    try:
        weights = dict(model.named_parameters(remove_duplicate=False))
        digests = {name: tensor_digest(weights[name]) for name in private_names(model) & initial.keys()}
        moved = [one for name, one in digests.items() if one != initial[name]]
        bought = _bought(folder.released()) if folder.run else []
        if (moved or bought) and folder.run:
            own = _this_run(folder.run, plan, mechanism)
            earlier_runs.remember(moved, together((own,), kept(folder.path)))
            earlier_runs.remember(bought, (own,))
    except Exception as error:
        _log.warning("a later run will not know that this one has trained its model: %s", type(error).__name__)


def _bought(released: Mapping[str, Tensor]) -> list[str]:
    """Digests of what was released before the first step; one that is alike everywhere, as zeros are, is nobody's."""
    return [tensor_digest(one) for one in released.values() if bool((one != one.flatten()[:1]).any())]


def _this_run(name: str, plan: Plan | AdaptivePlan, mechanism: Mechanism) -> EarlierRun:
    """A run as later ones will name it. Whose noise can be repeated has no guarantee."""
    guarantee = plan.guarantee()
    proved = guarantee.is_finite and mechanism.randomness == "system"
    epsilon = guarantee.epsilon if proved else None
    return EarlierRun(name, epsilon, guarantee.delta, guarantee.adjacency.value, guarantee.unit.value)
