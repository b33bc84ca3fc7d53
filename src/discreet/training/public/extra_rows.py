"""Public rows beside private ones: their exact mean gradient joins every step, and costs nothing.

A step uses (1 - w) x (noisy sum / expected batch) + w x (mean gradient of public rows), with a declared w. The second
term is a function of the released weights and of public rows: post-processing. So events, sensitivity and noise of the
first term stay the same. Gradients of public rows are neither clipped nor noised.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.clipping import private_parameters, training_mode
from discreet.clipping.digests import tensor_digest
from discreet.clipping.losses import summed_loss
from discreet.core import checks
from discreet.core.errors import InputError, PrivacyViolation
from discreet.ledger import Entry
from discreet.methods import NoiseAware
from discreet.plan import AdaptivePlan, Plan
from discreet.training.public.kept_declaration import keep_or_check
from discreet.training.public.public_copy import PublicCopy

_log = logging.getLogger("discreet")
_AT_ONCE = 256
_FILE = "public.json"


@dataclass(frozen=True, slots=True, eq=False)
class PublicBatches:
    """Rows declared public, and the `weight` (0 to 1, both excluded) that their gradient has in every step.

    `batch`: how many of them join a step, drawn from a public generator; by default all. Rows in the memory of private
    ones are refused; copies (`clone`) of private rows are not seen.
    """

    inputs: Tensor
    targets: Tensor
    weight: float
    batch: int | None = None

    def __post_init__(self) -> None:
        checks.open_unit("weight", self.weight)
        if len(self.inputs) != len(self.targets):
            raise InputError(f"public has {len(self.inputs)} inputs but {len(self.targets)} targets; they must pair up")
        if self.batch is not None and not checks.count("batch", self.batch) <= len(self.targets):
            raise InputError(f"a public batch of {self.batch} needs as many public rows; there are {len(self.targets)}")

    @property
    def declared(self) -> dict[str, Any]:
        """The facts for the certificate."""
        digests = tensor_digest(self.inputs) + tensor_digest(self.targets)
        return {
            "weight": float(self.weight),
            "rows": len(self.targets),
            "batch": len(self.targets) if self.batch is None else self.batch,
            "sha256": hashlib.sha256(digests.encode()).hexdigest(),
        }

    def rows(self, step: int) -> tuple[Tensor, Tensor]:
        """The rows of a step; a function of the step's number."""
        if self.batch is None:
            return self.inputs, self.targets
        generator = np.random.Generator(np.random.PCG64(step))
        places = torch.from_numpy(np.sort(generator.choice(len(self.targets), self.batch, replace=False)))
        return self.inputs[places], self.targets[places]


@dataclass(frozen=True, slots=True, eq=False)
class PublicGradient:
    """The public gradient that `apply` joins to a release."""

    weight: float
    tensors: Mapping[str, Tensor]

    def joined(self, name: str, private: Tensor) -> Tensor:
        """The gradient of a step, from the noisy mean of the private one."""
        return (1 - self.weight) * private + self.weight * self.tensors[name]


@dataclass(frozen=True, slots=True, eq=False)
class PublicSource:
    """Public rows as declared, and the copy of the model that they run through, which sees no private row."""

    batches: PublicBatches
    copy: PublicCopy
    declared: dict[str, Any]

    @classmethod
    def made(cls, batches: PublicBatches | None, copy: PublicCopy) -> PublicSource | None:
        """The source, with the declaration of the rows as they are now; None without public rows."""
        return None if batches is None else cls(batches, copy, batches.declared)

    def unchanged(self) -> dict[str, Any]:
        """The declaration; `PrivacyViolation` if the rows have changed since."""
        if self.batches.declared != self.declared:
            raise PrivacyViolation(
                "the public rows were changed during the run (in place, by the model or from outside), so they are not "
                "those that are declared; nothing is published. Start a new run, on rows that nobody writes to"
            )
        return self.declared

    def at(self, step: int) -> PublicGradient:
        """The mean gradient of the rows of a step, at the weights as they are."""
        model = self.copy.follow()
        training_mode(model)
        parameters = private_parameters(model)
        device = next(iter(parameters.values())).device
        inputs, targets = self.batches.rows(step)
        total = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
        for x, y in zip(torch.split(inputs, _AT_ONCE), torch.split(targets, _AT_ONCE), strict=True):
            loss = summed_loss(self.copy.criterion, model(x.to(device)), y.to(device)) / len(targets)
            found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
            for name, gradient in zip(parameters, found, strict=True):
                if gradient is not None:
                    total[name] += gradient
        return PublicGradient(self.batches.weight, total)


def check_beside(source: PublicSource | None, plan: Plan | AdaptivePlan, optimizer: torch.optim.Optimizer) -> None:
    """Refuse plans and optimizers that cannot be combined with public rows."""
    if source is None:
        return
    if isinstance(optimizer, NoiseAware):
        raise InputError(
            f"{type(optimizer).__name__} works with the noise of a release alone; take another with public rows"
        )
    if plan.line_search is not None:
        raise InputError("a line search goes along releases alone; leave public out, or the line search")


def declare(folder: Path, public: PublicSource | None, record: Sequence[Entry]) -> None:
    """Keep the declaration in the run's folder, and log it. `InputError` for a run that has begun with others.
    `record`: its entries in the ledger."""
    declared = None if public is None else public.declared
    if keep_or_check(folder / _FILE, declared, record, "other public rows or another weight"):
        report(public)


def report(public: PublicSource | PublicBatches | None) -> None:
    """Log which rows join the steps."""
    if public is not None:
        facts = public.declared
        some = "" if facts["batch"] == facts["rows"] else f", {facts['batch']} of them at a time"
        _log.info("%d rows declared public join every step%s, with weight %g", facts["rows"], some, facts["weight"])
