"""Every recipe that comes with the library: it keeps its budget, and fits the data that it names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from official_files import FILES

from discreet.recipes import load_recipe, recipe_names
from discreet.recipes.assemble import criterion_for
from discreet.recipes.sections.fixed_features import build_front_end


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_keeps_its_budget_and_fits_its_data(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    promised = recipe.plan().guarantee()
    assert promised.is_finite
    assert recipe.epsilon is None or promised.epsilon <= recipe.epsilon
    assert promised.delta < 1 / recipe.population
    FILES[recipe.data.name](tmp_path)
    split = recipe.data.load(tmp_path, recipe.unit)
    assert split.test is not None
    inputs, targets = (part[:2] for part in split.test)
    if recipe.features:  # not through `precompute`, which tries front ends out at length
        inputs = build_front_end(recipe.features, inputs.shape[1:])(inputs)
    model = recipe.build_model().eval()
    loss = criterion_for(targets.is_floating_point(), split.values)(model(inputs), targets)
    assert torch.isfinite(loss)
    recipe.build_optimizer(model)


def test_the_budget_of_cancer_is_that_of_the_paper() -> None:
    """rho = 0.4, of which Yu et al. 2019 would say rho + 2 sqrt(rho log(1 / delta)); more is certified."""
    plan = load_recipe("cancer").plan()
    rho = sum(phase.steps / (2 * phase.multiplier**2) for phase in plan.noise)  # type: ignore[union-attr]
    assert rho == pytest.approx(0.4, rel=1e-5)
    assert rho <= 0.4
    paper = rho + 2 * (rho * -torch.tensor(plan.delta).log().item()) ** 0.5
    assert plan.guarantee().epsilon < paper == pytest.approx(4.69, abs=0.01)
