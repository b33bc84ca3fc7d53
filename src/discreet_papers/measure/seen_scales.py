"""A private run with stops to look at the shape of its noise. Loads torch."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.core.events import Gaussian
from discreet.plan import Plan
from discreet.recipes.assemble import Run, assemble
from discreet.recipes.sections.components import on_components
from discreet.training import Training
from discreet.training.run.first_tensors import COMPONENTS, kept_tensor
from discreet_papers.measure.runs import data_of, recipe_of
from discreet_papers.part import Cell, Setting

SHARES = [round(float(share), 4) for share in np.linspace(0, 1, 41)]
"""The quantiles that are kept."""


def look(cell: Cell, setting: Setting) -> dict[str, Any]:
    """After some of the steps: quantiles of the noise on the mean gradient and of the gradient of public rows, each
    in multiples of its root mean square, and how the two are correlated in rank."""
    recipe = recipe_of(cell.facts, cell.seed, cell.name)
    wanted = cell.facts["at"]
    split = data_of(recipe, setting)
    with tempfile.TemporaryDirectory(prefix="discreet-reproduce-") as folder:
        training = assemble(recipe, split, Run(Path(folder) / "run", device=setting.device))
        public = (
            split if recipe.components is None else on_components(split, kept_tensor(Path(folder) / "run", COMPONENTS))
        )
        if public.test is None or not isinstance(training.plan, Plan):
            raise InputError(
                f"{cell.name}: scales are looked at where the plan is fixed and there are public test rows"
            )
        found = []
        with training.session() as session:
            while session.position < max(wanted) and session.ready():
                with session.step() as step:
                    step.add_all(training.criterion)
                if session.position in wanted:
                    found.append({"step": session.position} | _seen(training, session.position, public.test))
    return {"shares": SHARES, "looks": found}


def _seen(training: Training, position: int, test: tuple[Tensor, Tensor]) -> dict[str, Any]:
    assert isinstance(training.plan, Plan)
    noise = training.plan.noise[0].multiplier
    clip = training.clipping.at(position, Gaussian(noise))
    model = training.copy.follow()
    named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    device = named[0][1].device
    loss = training.copy.criterion(model(test[0].to(device)), test[1].to(device))
    gradient = torch.cat([one.detach().flatten().abs() for one in torch.autograd.grad(loss, [one for _, one in named])])
    scales = torch.ones_like(gradient, dtype=torch.float64)
    if clip.scales is not None:
        scales = torch.cat([clip.scales[name].flatten() for name, _ in named])
    spread = noise * clip.sensitivity / training.plan.expected_batch * scales
    return {
        "noise": _quantiles(spread),
        "gradient": _quantiles(gradient),
        "rms_noise": float(spread.square().mean().sqrt()),
        "rms_gradient": float(gradient.double().square().mean().sqrt()),
        "rank_correlation": _correlation(spread, gradient),
    }


def _quantiles(values: Tensor) -> list[float]:
    """In multiples of the root mean square."""
    array = values.double().cpu().numpy()
    return [float(f"{one:.5g}") for one in np.quantile(array / np.sqrt(np.mean(array**2)), SHARES)]


def _correlation(one: Tensor, other: Tensor) -> float | None:
    """Spearman's, with ranks of equal values averaged; None if either is constant."""
    from scipy.stats import rankdata

    ranks = [rankdata(values.double().cpu().numpy()) for values in (one, other)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])
