"""Warm starts of runs: which earlier runs released the weights at the start, and what this one will have released."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from torch import nn

from discreet.certificate import warm_start
from discreet.certificate.warm_start import EarlierRun, together
from discreet.clipping.admission.admission import private_names
from discreet.clipping.digests import tensor_digest
from discreet.core.disk import write_durably
from discreet.core.errors import InputError
from discreet.plan import AdaptivePlan, Plan
from discreet.training.run.trained import Mechanism, Trained

_log = logging.getLogger("discreet")
_FILE = "warm_start.json"


def report(earlier: Sequence[EarlierRun]) -> None:
    """Say that training starts from what other private runs released, before anything is charged."""
    if earlier:
        _log.warning(
            "training starts from weights that another private run released: %s. What a person in the data of both "
            "gives away adds up; this certificate names that run and is about its own steps alone. For one budget over "
            "both, name the data set in each: run=RunOptions(ledger=..., dataset_id=...)",
            ", ".join(one.line for one in earlier),
        )


def kept(folder: Path) -> tuple[EarlierRun, ...]:
    """The runs that the run in this folder started from."""
    try:
        return EarlierRun.named(json.loads((folder / _FILE).read_text()))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError):
        raise InputError(f"cannot read {folder / _FILE}; start a new run") from None


def keep(folder: Path, earlier: Sequence[EarlierRun]) -> None:
    """Keep in the folder of a run which runs it started from, for whoever goes on with it, and say so."""
    found = together(kept(folder), earlier)
    if found:
        write_durably(folder / _FILE, (json.dumps([asdict(one) for one in found]) + "\n").encode())
    report(found)


def this_run(name: str, plan: Plan | AdaptivePlan, mechanism: Mechanism) -> EarlierRun:
    """A run as later ones will name it. Whose noise can be repeated has no guarantee."""
    guarantee = plan.guarantee()
    proved = guarantee.is_finite and mechanism.randomness == "system"
    epsilon = guarantee.epsilon if proved else None
    return EarlierRun(name, epsilon, guarantee.delta, guarantee.adjacency.value, guarantee.unit.value)


def remember(trained: Trained) -> Trained:
    """Note that the weights of this result are released; returns it."""
    own = this_run(trained.entries[0].run, trained.plan, trained.mechanism)
    moved = [digest for name, digest in trained.final.items() if digest != trained.initial.get(name)]
    warm_start.remember(moved, together((own,), trained.warm_start))
    return trained


def remember_left(folder: Path, model: nn.Module, initial: Mapping[str, str], own: EarlierRun) -> None:
    """Note that a run leaves the weights that it has moved in `model`: it need not have ended well. `folder`: its own;
    `initial`: digests at its start."""
    state, private = model.state_dict(), private_names(model)
    digests = {name: tensor_digest(state[name]) for name in private & state.keys()}
    moved = [one for name, one in digests.items() if one != initial.get(name)]
    warm_start.remember(moved, together((own,), kept(folder)))
