"""A forward pass in evaluation mode that writes to the model, by way of `.data`, for some private rows."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from problems import FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import PrivacyViolation
from discreet.clipping.digests import state_digests
from discreet.clipping.separation.copies import OwnWeights, copied
from discreet.methods import Averaging
from discreet.plan import Metric
from discreet.queries import Account
from discreet.training import choose_model
from discreet.training.private_metrics.read_only import read_only

ROWS = blobs()


class Writes(nn.Module):
    """Adds to its weights, or puts others in their place, for single rows like some of the later ones."""

    def __init__(self, *, replaces: bool = False) -> None:
        super().__init__()
        self.inner, self._replaces = linear(), replaces

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training and len(rows) == 1 and float(rows.abs().max()) > 2.5:
            weight = self.inner.weight
            if self._replaces:
                weight.data = weight.data + rows.mean()
            else:
                weight.data.add_(rows.mean())
        return self.inner(rows)


def test_the_rows_are_such_that_the_first_does_not_write() -> None:
    largest = ROWS[0].abs().amax(1)
    assert largest[0] < 2.5 < largest.max()


def alone(model: nn.Module, rows: Tensor) -> Tensor:
    """The outputs of rows, each by a copy of its own."""
    with torch.no_grad():
        return torch.cat([copied(model, nn.CrossEntropyLoss(), own=True)[0].eval()(row) for row in rows.split(1)])


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("averaging", [None, Averaging()])
def test_a_metric_is_of_each_row_by_itself(tmp_path: Path, averaging: Averaging | None, replaces: bool) -> None:
    """An error would tell of the row that writes, and what it writes would move the values of the rows after it."""
    plan = tiny_plan(steps=2, metrics=[Metric(noise=2.0**-6, every=2)])
    model = Writes(replaces=replaces)
    training = tiny_training(tmp_path, plan=plan, model=model, averaging=averaging, engine="reference")
    trained = training.run(progress=False)
    assert state_digests(trained.model) == trained.final
    right = (alone(trained.model, ROWS[0]).argmax(1) == ROWS[1]).double().mean()
    assert abs(training.watch.bought[-1].value - float(right)) < 0.02


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("replaces", [False, True])
def test_candidates_are_handed_out_as_they_were(tmp_path: Path, replaces: bool, first: bool) -> None:
    """`first`: rows that write come first, so that one of them is tried before the charge."""
    models = [Writes(replaces=replaces), Writes(replaces=replaces)]
    before = [state_digests(model) for model in models]
    order = ROWS[0].abs().amax(1).argsort(descending=True) if first else torch.arange(len(ROWS[1]))
    rows = ROWS[0][order], ROWS[1][order]
    assert choose_model(models, rows, Account(tmp_path / "ledger.sqlite", 1e-5), 1.0).index in (0, 1)
    assert [state_digests(model) for model in models] == before


@pytest.mark.parametrize("replaces", [False, True])
def test_what_shares_the_memory_is_as_it_was(replaces: bool) -> None:
    model = Writes(replaces=replaces).eval()
    twin, _ = copied(model, nn.CrossEntropyLoss())
    before = state_digests(model)
    with pytest.raises(PrivacyViolation), read_only(twin):
        twin(ROWS[0][ROWS[0].abs().amax(1).argmax()].unsqueeze(0))
    assert state_digests(model) == state_digests(twin) == before
    assert twin.inner.weight.data_ptr() == model.inner.weight.data_ptr()


def test_numbers_that_are_none_are_no_change() -> None:
    model = nn.Linear(FEATURES, 2)
    with torch.no_grad():
        model.weight.fill_(torch.nan)
    with read_only(model):
        model(ROWS[0])


@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64, torch.bfloat16, torch.bool, torch.int64])
def test_buffers_of_every_type_are_compared(dtype: torch.dtype) -> None:
    model = nn.Identity()
    model.register_buffer("table", torch.zeros(3, dtype=dtype))
    with read_only(model):
        model(ROWS[0])
    with pytest.raises(PrivacyViolation, match="table"), read_only(model):
        model.get_buffer("table").data[1] = 1
    assert not model.get_buffer("table").any()


def test_a_buffer_counts_too() -> None:
    model = nn.BatchNorm1d(FEATURES)
    with pytest.raises(PrivacyViolation, match="running_mean"), read_only(model):
        model(ROWS[0])
    assert bool((model.running_mean == 0).all())


@pytest.mark.parametrize("changed", [Tensor.conj, torch._neg_view, lambda weight: weight.view(torch.float64)])
def test_weights_that_are_read_in_another_way_are_not_as_they_were(changed: Callable[[Tensor], Tensor]) -> None:
    """They lie where they lay, and are other numbers."""
    layer = nn.Linear(2, 3, bias=False, dtype=torch.complex64)
    weights = OwnWeights(layer, {"weight": layer.weight.detach().clone()})
    assert weights.renewed(layer)
    layer.weight.data = changed(layer.weight.data)
    assert not weights.renewed(layer)
