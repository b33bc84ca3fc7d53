"""What floating point may do to a clipped sum: within the stated slack, or, for the engine `exact`, nothing at all."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Chunk, Clip
from discreet.clipping.admission.admission import private_parameters

CLIP = Clip(1.0, 2.0**-30)
CHUNKS = (1, 5, 16, 48)


def sums(
    engine: str, model: nn.Module, inputs: Tensor, targets: Tensor, chunk: int, criterion: nn.Module
) -> np.ndarray:
    """The sum over the batch, before rounding, cut into chunks of the given size."""
    accumulator = Accumulator(private_parameters(model))
    for x, y in zip(torch.split(inputs, chunk), torch.split(targets, chunk), strict=True):
        accumulator.add(ENGINES[engine].clipped_sum(model, criterion, Chunk(x, y), CLIP))
    total = accumulator.total(ENGINES["exact"], CLIP, len(inputs)).tensors
    return np.concatenate([total[name].ravel() for name in sorted(total)])


def network(seed: int) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(seed)
    models = [
        (nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)), (48, 64)),
        (
            nn.Sequential(nn.Conv2d(2, 8, 3), nn.GroupNorm(2, 8), nn.Tanh(), nn.Flatten(), nn.Linear(288, 10)),
            (48, 2, 8, 8),
        ),
        (nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 10)), (48, 32)),
    ]
    model, shape = models[seed % len(models)]
    return model, torch.randn(shape) * 10.0 ** (seed % 5 - 2)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap", "reference"])
@pytest.mark.parametrize("seed", range(9))
def test_chunks_move_the_sum_of_a_fast_engine_within_its_slack(engine: str, seed: int) -> None:
    model, inputs = network(seed)
    targets = torch.randint(10, (len(inputs),))
    results = [sums(engine, model, inputs, targets, chunk, nn.CrossEntropyLoss()) for chunk in CHUNKS]
    error = ENGINES[engine].error
    assert error is not None
    allowed = error * CLIP.norm * len(inputs)
    assert max(float(np.linalg.norm(one - results[0])) for one in results) <= allowed


@pytest.mark.parametrize("seed", range(9))
def test_chunks_do_not_move_an_exact_sum_at_all(seed: int) -> None:
    model, inputs = network(seed)
    targets = torch.randint(10, (len(inputs),))
    results = [sums("exact", model, inputs, targets, chunk, nn.CrossEntropyLoss()) for chunk in CHUNKS]
    results.append(sums("exact", model, inputs.flip(0), targets.flip(0), 7, nn.CrossEntropyLoss()))
    assert all(np.array_equal(one, results[0]) for one in results)
    units = results[0] / CLIP.grid
    assert np.array_equal(units, np.rint(units))


class Cancelling(nn.Module):
    """Adds and subtracts large products; what is left of the gradient is rounding, then magnified by clipping."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((257, 1), 1.0))

    def forward(self, x: Tensor) -> Tensor:
        large = 1e6 * x
        return (large @ self.weight - large.sum(1, keepdim=True) * self.weight.mean()) ** 2 * 1e-3


def cancelling_batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(48, 257), torch.zeros(48, 1)


def test_cancelling_inputs_are_why_the_slack_is_an_assumption_and_exact_does_not_need_it() -> None:
    """A bound from type and number of terms alone does not exist: here chunks move a fast sum past any small slack."""
    model, (inputs, targets) = Cancelling(), cancelling_batch()
    fast = [sums("vmap", model, inputs, targets, chunk, nn.MSELoss()) for chunk in CHUNKS]
    exact = [sums("exact", model, inputs, targets, chunk, nn.MSELoss()) for chunk in CHUNKS]
    assert all(np.array_equal(one, exact[0]) for one in exact)
    error = ENGINES["vmap"].error
    assert error is not None
    assert max(float(np.linalg.norm(one - fast[0])) for one in fast) > error * CLIP.norm * len(inputs)


def test_the_sensitivity_contains_rounding_and_slack() -> None:
    parameters = {"w": torch.zeros(400)}
    total = Accumulator(parameters).total(ENGINES["vmap"], CLIP, largest_batch=1000)
    assert total.sensitivity >= 1 + 2 * 2.0**-20 * 1000 + CLIP.grid * 20
    assert Accumulator(parameters).total(ENGINES["exact"], CLIP, largest_batch=1000).sensitivity == CLIP.norm
