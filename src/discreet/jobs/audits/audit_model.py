"""The job of `discreet audit model`: membership attacks on a published model, by the holder of its data."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from discreet.audit.membership.attack_rates import Attack, AttackRate, measured
from discreet.audit.membership.row_signals import LEAST_SHADOWS, halves, lira_scores, loss_scores, rmia_scores
from discreet.audit.membership.shadow_models import Trainer, shadow_losses
from discreet.audit.one_run.one_run_game import steps_alone
from discreet.audit.row_losses import losses_of
from discreet.certificate.canonical import strict_json
from discreet.certificate.files import CERTIFICATE, read
from discreet.certificate.model_spec import ModelSpec
from discreet.clipping import Criterion
from discreet.core.adjacency import Unit
from discreet.core.disk import real
from discreet.core.errors import InputError, VerificationFailed
from discreet.data.tables import Encoder
from discreet.jobs.audits.audited_rows import audited_rows, shared
from discreet.jobs.run_folders import JOB, run_folder
from discreet.jobs.tables.table_loss import loss_of
from discreet.plan.pydantic_base import validate
from discreet.prediction import load
from discreet.prediction.load import Predictor
from discreet.publication import verify
from discreet.publication.pages.certificate_facts import plan_of
from discreet.publication.pages.report import attack_risk
from discreet.recipes import Recipe, load_recipe
from discreet.recipes.assemble import criterion_for
from discreet.recipes.models.centered import center_of, set_center
from discreet.training import EngineOptions


@dataclass(frozen=True, slots=True, eq=False)
class ModelAudit:
    """The measurements of a published model. All of it is about private rows, and stays with their holder.

    `rates`: every attack at every false-positive rate. `most`: the true-positive rates that the claim allows at given
    false-positive rates. `unit`: whom the claim protects. `shadows`: how many shadow models there were. `shared`: how
    many others equal a member. `losses`: the mean loss of the model, of members and of others.
    """

    attacks: tuple[Attack, ...]
    rates: tuple[AttackRate, ...]
    most: Callable[[float], float]
    epsilon: float
    delta: float
    unit: Unit
    shadows: int
    shared: int
    losses: tuple[float, float]

    @property
    def beyond(self) -> bool:
        """Whether an attack finds more than the certificate allows, by far."""
        return any(one.beyond for one in self.rates)


def audit_model(
    folder: Path,
    members: Path,
    others: Path,
    *,
    shadows: int = 0,
    recipe: str | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> ModelAudit:
    """Attack the model in `folder`. `members`: rows that it was trained on; `others`: rows like them that it was not.

    `recipe`: what shadow models are trained by; that of the run's folder by default. `VerificationFailed` if the folder
    is not accepted, `InputError` for rows that do not fit it. Nothing is written.
    """
    if shadows and shadows < LEAST_SHADOWS:
        raise InputError(f"--shadows {shadows} are too few: give {LEAST_SHADOWS} at least, or leave it out")
    accepted = verify(folder)
    if not accepted.accepted:
        raise VerificationFailed(f"{folder}: {accepted.summary}")
    _built_by_name(folder)
    facts, predictor = strict_json(read(folder / CERTIFICATE), CERTIFICATE), load(folder)
    criterion = _criterion(predictor)
    rows = audited_rows(predictor, members, "--members"), audited_rows(predictor, others, "--others")
    trainer = _trainer(folder, recipe, predictor) if shadows else None  # before anything takes long
    inputs, targets = (torch.cat([part[side] for part in rows]) for side in (0, 1))
    count = len(rows[0][1])
    found = losses_of(predictor.model, inputs, targets, criterion)
    scores = {"loss": loss_scores(found)}
    if trainer is not None:
        rng = np.random.default_rng(secrets.randbits(63))
        trained = halves(shadows, len(targets), rng)
        of_shadows = shadow_losses(trainer, inputs, targets, trained, criterion, told)
        scores |= {"LiRA": lira_scores(found, of_shadows, trained), "RMIA": rmia_scores(found, of_shadows)}
    attacks = tuple(Attack(name, one[:count], one[count:]) for name, one in scores.items())
    claim = facts["claim"]
    most = _most(facts)
    return ModelAudit(
        attacks,
        tuple(measured(attacks, most)),
        most,
        claim["epsilon"],
        claim["delta"],
        Unit(claim["unit"]),
        shadows,
        shared(*rows),
        (float(found[:count].mean()), float(found[count:].mean())),
    )


def _built_by_name(folder: Path) -> None:
    spec = ModelSpec.from_json(read(folder / "model.json"))
    if spec.language is not None:
        raise InputError("an audit takes no language model; canaries measure one: discreet train --canaries")
    if spec.model is None:
        raise InputError(
            f"an audit builds a model by its name, and this is a module of its maker's own ({str(spec.module)[:80]}); "
            "it takes models of recipes, tables, images and texts"
        )


def _most(facts: Mapping[str, Any]) -> Callable[[float], float]:
    """The largest true-positive rate that a certificate's claim allows: by the plan's curve, or the claim alone."""
    return attack_risk(dict(facts["claim"]), plan_of(facts)).best.true_positive_rate


def _criterion(predictor: Predictor) -> Criterion:
    """The loss that rows are scored by."""
    spec = predictor.spec
    if spec.outputs == "classes":
        return nn.CrossEntropyLoss()
    labels = spec.table is not None and Encoder.from_json(spec.table).task == "labels"
    return nn.BCEWithLogitsLoss() if labels else nn.MSELoss()


def _trainer(folder: Path, name: str | None, predictor: Predictor) -> Trainer:
    """How the model was trained, by the recipe that its run kept or that is named."""
    recipe = load_recipe(name, [], {}) if name is not None else _kept_recipe(folder)
    plan = steps_alone(recipe.plan())
    if plan.sampling.SIZE_IS_PUBLIC:
        raise InputError(
            f"shadow models are trained on half of the rows, and {plan.sampling.kind} sampling needs their exact "
            "number; leave out --shadows"
        )
    regression = predictor.spec.outputs != "classes"
    table = predictor.spec.table
    return Trainer(
        plan,
        _builder(recipe, predictor),
        criterion_for(regression) if table is None else loss_of(Encoder.from_json(table)),
        recipe.build_optimizer,
        EngineOptions(),
        geometry=recipe.build_geometry,
        scheduler=recipe.build_scheduler,
        averaging=recipe.averaging,
    )


def _builder(recipe: Recipe, predictor: Predictor) -> Callable[[], nn.Module]:
    """What builds the model that steps began with: with the center of the published one, which was released before."""
    if recipe.center is None:
        return recipe.build_model
    center = center_of(predictor.model)

    def build() -> nn.Module:
        model = recipe.build_model()
        set_center(model, center)
        return model

    return build


def _kept_recipe(folder: Path) -> Recipe:
    kept = run_folder(real(folder)) / JOB
    try:
        facts = json.loads(kept.read_text())["recipe"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"shadow models need the recipe of the run, and there is none in {kept.parent}; name it with --recipe"
        ) from None
    return validate(Recipe, facts, str(kept))
