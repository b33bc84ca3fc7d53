"""The open loop of ADADP as printed: gradients and clipping by autograd, statistics, and that it stays apart."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from discreet.core.errors import InputError
from discreet.methods.adadp_as_published import Printed
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe
from discreet.recipes.models.models import mlp
from discreet_papers.experiment import read_experiment
from discreet_papers.measure import leaking_adadp as loop
from discreet_papers.measure.leaking_adadp import Leaking, Network, Released, _Training, clipped_sums, components
from discreet_papers.measure.store import Store
from discreet_papers.parts.trained.leaking_adadp import LeakingADADPPart

RESULTS = Path(__file__).parents[2] / "recipes" / "results"


@pytest.fixture
def case() -> tuple[Network, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(30, 6, generator=generator)
    return Network(mlp(6, 4, [5], 1)), inputs, torch.randint(0, 4, (30,), generator=generator)


def by_autograd(network: Network, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The gradients of all examples, (n, *shape of the weights): a bias is the last column."""
    inner, outer = nn.Linear(6, 5), nn.Linear(5, 4)
    for layer, weights in ((inner, network.inner), (outer, network.outer)):
        layer.weight.data, layer.bias.data = weights[:, :-1].detach().clone(), weights[:, -1].detach().clone()
    found: dict[str, list[Tensor]] = {"inner": [], "outer": []}
    for row, target in zip(inputs, targets, strict=True):
        loss = cross_entropy(outer(torch.relu(inner(row))), target)
        parts = torch.autograd.grad(loss, [inner.weight, inner.bias, outer.weight, outer.bias])
        for name, (weight, bias) in (("inner", parts[:2]), ("outer", parts[2:])):
            found[name].append(torch.cat([weight, bias[:, None]], 1))
    return {name: torch.stack(rows).double() for name, rows in found.items()}


def test_the_gradients_are_those_of_autograd(case: tuple[Network, Tensor, Tensor]) -> None:
    network, inputs, targets = case
    expected = by_autograd(network, inputs, targets)
    for name, one in network.factors(inputs, targets).items():
        assert torch.allclose(one.total(), expected[name].sum(0), atol=1e-5)
        assert torch.allclose(one.squares(), expected[name].square().sum(0), atol=1e-5)


@pytest.mark.parametrize("kind", ["flat", "ellipsoid", "box"])
def test_sums_are_clipped_example_by_example(
    kind: str, case: tuple[Network, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CLIP", 0.4)
    network, inputs, targets = case
    rows = by_autograd(network, inputs, targets)
    generator = torch.Generator().manual_seed(4)
    shapes = {name: one.shape[1:] for name, one in rows.items()}
    scales = {
        name: 0.05 + 0.1 * torch.rand(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()
    }
    used = {} if kind == "flat" else scales
    sums, sensitivity = clipped_sums(network.factors(inputs, targets), kind, used)
    if kind == "box":
        expected = {name: (one / scales[name]).clamp(-1, 1).sum(0) for name, one in rows.items()}
        assert sensitivity == math.sqrt(6 * 4 + 7 * 5)
    else:
        divided = {name: one / used.get(name, 1.0) for name, one in rows.items()}
        lengths = torch.cat([one.flatten(1) for one in divided.values()], 1).norm(dim=1)
        factors = (0.4 / lengths).clamp(max=1)
        assert (factors < 1).any()
        expected = {name: torch.einsum("n,nij->ij", factors, one) for name, one in divided.items()}
        assert sensitivity == 0.4
    for name, one in sums.items():
        assert torch.allclose(one, expected[name], rtol=1e-4, atol=1e-4)


def test_line_23_averages_raw_squares_and_the_library_only_releases(case: tuple[Network, Tensor, Tensor]) -> None:
    """With one example more the printed scales are others, whatever was released; the library's stay as they are."""
    network, inputs, targets = case
    settings = Printed(1, 8.0, 0.002, lot=30.0, clip_norm=4.0, threshold=0.0)
    noisy = {name: torch.ones(one.shape, dtype=torch.float64) for name, one in network.named_parameters()}
    scales: dict[str, list[dict[str, Tensor]]] = {"mean": [], "examples": [], "released": []}
    for rows in (29, 30):
        factors = network.factors(inputs[:rows], targets[:rows])
        for squares, found in scales.items():
            method = Released(network, 30.0) if squares == "released" else Leaking(network, settings, squares, "box")
            method.update(factors, noisy, 0.5)
            found.append(dict(method.scales()[1]))
    assert all(torch.equal(scales["released"][0][name], scales["released"][1][name]) for name in noisy)
    exact = by_autograd(network, inputs, targets)
    for name, one in exact.items():
        for squares in ("mean", "examples"):
            assert not torch.equal(scales[squares][0][name], scales[squares][1][name])
        side = 1.2 * (0.1 * (one.sum(0) / 30).square()).sqrt()
        assert torch.allclose(scales["mean"][1][name], side.clamp(min=1e-12), atol=1e-6)
        side = 1.2 * (0.1 * one.square().sum(0) / 30).sqrt()
        assert torch.allclose(scales["examples"][1][name], side.clamp(min=1e-12), atol=1e-6)


@pytest.mark.parametrize("moved_by", ["noisy", "raw"])
def test_line_25_moves_by_the_raw_gradient(moved_by: str, case: tuple[Network, Tensor, Tensor]) -> None:
    """Without division: by exactly lr times the raw mean; by noise as well where the noisy gradient moves."""
    network, inputs, targets = case
    before = {name: one.detach().clone() for name, one in network.named_parameters()}
    factors = network.factors(inputs, targets)
    method = {"squares": "none", "clip": "box", "moved_by": moved_by, "divided": False}
    settings = Printed(1, 8.0, 0.5, lot=30.0, clip_norm=4.0)
    _Training(network, settings, method, torch.Generator().manual_seed(5)).step(factors)
    off = [
        (before[name] - one.detach() - 0.5 * (factors[name].total() / 30).float()).flatten()
        for name, one in network.named_parameters()
    ]
    spread = float(torch.cat(off).std())
    if moved_by == "raw":
        assert spread < 1e-6
    else:  # 59 numbers with a standard deviation of lr x multiplier x clip norm / lot
        assert spread == pytest.approx(0.5 * 8.0 * 4.0 / 30, rel=0.3)


def test_components_are_those_of_a_noisy_covariance() -> None:
    generator = torch.Generator().manual_seed(6)
    rows = torch.randn(200, 3, generator=generator) * torch.tensor([9.0, 3.0, 0.1])
    unit = rows.double() / rows.double().norm(dim=1, keepdim=True)
    top = torch.linalg.eigh(unit.T @ unit).eigenvectors[:, [-1]].T
    assert torch.allclose(components(rows, 1, 1e-9, generator).abs(), top.abs(), atol=1e-6)
    assert not torch.allclose(components(rows, 1, 50.0, generator).abs(), top.abs(), atol=1e-2)


def test_no_recipe_reaches_the_leak() -> None:
    """A recipe, and so `discreet train`, knows neither raw squares nor the method by another name."""
    recipe = {
        "data": "mnist",
        "model": {"name": "mlp", "inputs": 784, "outputs": 10, "hidden": [4]},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "population": 60000,
        "rate": 0.01,
        "steps": 2,
        "clip_norm": 4.0,
        "schedule": "uniform:initial=8",
        "delta": 1e-5,
    }
    validate(Recipe, recipe | {"geometry": {"name": "adadp"}}, "recipe")
    for geometry in ({"name": "adadp", "squares": "mean"}, {"name": "leaking_adadp"}, {"name": "adadp_as_published"}):
        with pytest.raises(InputError):
            validate(Recipe, recipe | {"geometry": geometry}, "recipe").build_geometry(mlp(784, 10, [4]))


def test_results_are_accuracies_alone_and_rates_the_best_of_those_held_out() -> None:
    """Nothing that was measured in the open has an epsilon, and no rate was chosen by the test images."""
    store = Store(RESULTS, "adadp-leak", "full")
    assert store.cells
    for one in store.cells:
        assert set(one.result) == {"accuracy"}
        assert not {"epsilon", "delta"} & set(json.dumps(one.facts).replace('"', " ").split())
    checked = 0
    for part in read_experiment("adadp-leak", "full").parts:
        assert isinstance(part, LeakingADADPPart)
        for run in part.runs:
            found = {lr: dict(store.of(part._held_out(run, lr)))[1000]["accuracy"] for lr in run.chosen_from}
            if found:
                assert found[run.lr] == max(found.values()), run.name
                checked += 1
    assert checked >= 6
