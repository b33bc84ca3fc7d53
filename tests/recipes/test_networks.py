"""The papers' networks by name, and how well ratings are told."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.clipping.losses import summed_loss
from discreet.clipping.valued import ValuedCrossEntropy
from discreet.core.errors import InputError
from discreet.recipes.models.models import MODELS
from discreet.recipes.models.networks import Biases, WordScores
from discreet.training.public.evaluation import evaluate

PAIRS = torch.tensor([[0, 1], [2, 3], [0, 0]])
NETWORKS: dict[str, tuple[dict[str, Any], Tensor, tuple[int, ...], int]] = {
    # arguments, inputs, shape of outputs, parameters counted by hand from the papers' descriptions
    "mnist_cnn": ({}, torch.rand(3, 1, 28, 28), (3, 10), 16 * 65 + 32 * 257 + 32 * 513 + 10 * 33),
    "mean_embedding": ({"tokens": 10_000}, torch.randint(0, 10_001, (3, 256)), (3, 2), 10_001 * 16 + 16 * 17 + 2 * 17),
    "collaborative_filtering": ({"users": 6040, "films": 3952}, PAIRS, (3, 5), 9992 * (5 + 10) + 5 * 26),
    "biases": ({"users": 943, "films": 1682, "rank": 2}, PAIRS, (3, 1), 2625 * 3 + 1),
    "mlp": ({"inputs": 9, "outputs": 2, "hidden": [10, 20, 10]}, torch.rand(3, 9), (3, 2), 100 + 220 + 210 + 22),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_shapes_sizes_and_public_weights(name: str) -> None:
    arguments, inputs, shape, size = NETWORKS[name]
    before = torch.random.get_rng_state()
    one, same, other = (MODELS[name](**arguments, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert one(inputs).shape == shape
    assert sum(parameter.numel() for parameter in one.parameters()) == size
    assert torch.equal(one(inputs), same(inputs))
    assert not torch.equal(one(inputs), other(inputs))


def test_a_public_scale_is_that_of_the_rows() -> None:
    arguments, inputs, _, size = NETWORKS["mlp"]
    scaled, plain = MODELS["mlp"](**arguments, scale=0.25), MODELS["mlp"](**arguments)
    assert sum(parameter.numel() for parameter in scaled.parameters()) == size
    assert torch.equal(scaled(inputs), plain(0.25 * inputs))
    with pytest.raises(InputError, match="scale"):
        MODELS["mlp"](**arguments, scale=0)


def test_a_rating_is_what_the_paper_of_the_model_says() -> None:
    model = Biases(3, 4, middle=3.0, rank=2, scale=0.5, spread=10.0, user_spread=0.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    user, film = model.user.weight[2], model.film.weight[3]
    expected = 3.0 + 0.5 * user[0] + film[0] + user[1] * film[1] + user[2] * film[2] + 10 * model.common.weight[0, 0]
    torch.testing.assert_close(model(PAIRS)[1, 0], expected)


class Same(nn.Module):
    """Returns its input; one parameter, as models have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


def test_scores_of_words_are_a_linear_layer_on_indicators_of_norm_one() -> None:
    model, head = WordScores(6, 2), torch.randn(7, 2)
    with torch.no_grad():
        model.scores.weight.copy_(head)
        model.common.weight.fill_(5.0)
    tokens = torch.tensor([[1, 4, 0], [2, 3, 6], [0, 0, 0]])
    indicators = torch.nn.functional.one_hot(tokens, 7).sum(1).float()
    indicators[:, 0] = 0
    torch.testing.assert_close(model(tokens), torch.nn.functional.normalize(indicators) @ head + 0.5)


def test_root_of_the_mean_squared_error() -> None:
    numbers, targets = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([[1.0], [4.0], [4.0]])
    assert evaluate(Same(), nn.MSELoss(), numbers, targets)["rmse"] == pytest.approx((5 / 3) ** 0.5)
    assert "rmse" not in evaluate(Same(), nn.BCEWithLogitsLoss(), numbers, targets / 4)
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [1e-30, 1 - 2e-30, 1e-30]]))
    found = evaluate(Same(), ValuedCrossEntropy((1, 2, 4)), logits, torch.tensor([0, 2]))
    assert found["rmse"] == pytest.approx((((0.5 + 0.5 + 1 - 1) ** 2 + (2 - 4) ** 2) / 2) ** 0.5)
    assert found["accuracy"] == 0.5
    assert "rmse" not in evaluate(Same(), nn.CrossEntropyLoss(), logits, torch.tensor([0, 2]))


def test_values_do_not_change_the_loss() -> None:
    outputs, targets = torch.randn(6, 5), torch.arange(6) % 5
    valued, plain = (
        summed_loss(loss, outputs, targets) for loss in (ValuedCrossEntropy(range(5)), nn.CrossEntropyLoss())
    )
    assert torch.equal(valued, plain)
    with pytest.raises(InputError, match="one for each class"):
        ValuedCrossEntropy(())
