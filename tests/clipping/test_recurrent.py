"""Recurrent rules against one backward pass per example: layers, directions, projections, states, dropout, cells."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from layers import TOKENS
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.rules import base
from discreet.clipping.rules.recurrent import CellRule, RecurrentRule
from discreet.core.errors import UnsupportedModel

ROWS, LENGTH, FEATURES, HIDDEN = 5, 6, 3, 4
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


class Around(nn.Module):
    """A recurrent module behind a linear layer; the loss sees what `uses` names: outputs, states."""

    def __init__(self, inner: Any, uses: str, *, begun: bool = False) -> None:
        super().__init__()
        self.before, self.inner, self.uses, self.begun = nn.Linear(FEATURES, FEATURES), inner, uses, begun
        self.start = nn.Linear(FEATURES, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        given = x if self.inner.batch_first else x.transpose(0, 1)
        states: Any = ()
        if self.begun:
            count = self.inner.num_layers * (2 if self.inner.bidirectional else 1)
            h = torch.stack([self.start(x[:, 0]) * (1 + i) for i in range(count)])
            states = ((h, torch.sin(h)),) if isinstance(self.inner, nn.LSTM) else (h,)
        output, ends = self.inner(given, *states)
        output = output if self.inner.batch_first else output.transpose(0, 1)
        ends = ends if isinstance(ends, tuple) else (ends,)
        parts = [output] if "output" in self.uses else []
        parts += [end.transpose(0, 1) for end in ends] if "states" in self.uses else []
        return torch.cat([torch.sin(3 * part).flatten(1) for part in parts], 1)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return output.sum() * target.sum()


def apart(model: nn.Module, inputs: Tensor, norm: float = 0.7) -> float:
    targets = torch.linspace(0.1, 1.0, len(inputs), dtype=inputs.dtype)
    one, other = (
        ENGINES[name].clipped_sum(model, loss, Chunk(inputs, targets), Clip(norm, 2.0**-30))
        for name in ("bookkeeping", "reference")
    )
    return sum(float((one[key] - other[key]).square().sum()) for key in other) ** 0.5 / (norm * len(inputs))


def data(dtype: torch.dtype = torch.float64, rows: int = ROWS, length: int = LENGTH) -> Tensor:
    return torch.randn(rows, length, FEATURES, generator=torch.Generator().manual_seed(1)).to(dtype)


SHAPES = list(itertools.product(["RNN", "GRU", "LSTM", "LSTM projected", "RNN relu"], [1, 2, 3], [False, True]))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("kind", "layers", "both"), SHAPES)
def test_every_kind_agrees(kind: str, layers: int, both: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    name, *rest = kind.split()
    options = {"projected": {"proj_size": 2}, "relu": {"nonlinearity": "relu"}}[rest[0]] if rest else {}
    first, bias = both, layers != 2
    inner = getattr(nn, name)(FEATURES, HIDDEN, layers, bidirectional=both, batch_first=first, bias=bias, **options)
    model = Around(inner, "output states").to(dtype)
    assert apart(model, data(dtype)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("uses", ["output", "states", "output states"])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_states_that_are_given_or_used_agree(kind: Any, uses: str) -> None:
    torch.manual_seed(0)
    inner = kind(FEATURES, HIDDEN, 2, bidirectional=True)
    assert apart(Around(inner, uses, begun=True).double(), data()) <= 1e-10


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("length", [1, 4])
def test_small_batches_and_short_sequences(rows: int, length: int) -> None:
    torch.manual_seed(0)
    model = Around(nn.GRU(FEATURES, HIDDEN, batch_first=True), "output states").double()
    assert apart(model, data(rows=rows, length=length)) <= 1e-10


def test_a_small_budget_takes_examples_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Around(nn.LSTM(FEATURES, HIDDEN, 2, bidirectional=True), "output states", begun=True).double()
    calls = []
    real = RecurrentRule._run
    monkeypatch.setattr(RecurrentRule, "_run", lambda self, *given: calls.append(1) or real(self, *given))
    monkeypatch.setattr(base, "BUDGET", 1)
    assert apart(model, data()) <= 1e-10
    assert len(calls) == ROWS


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_dropout_between_layers_is_replayed(
    kind: Any, both: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the rule runs again returns what the module returned, with the same zeros."""
    torch.manual_seed(3)
    inner = kind(FEATURES, HIDDEN, 3, dropout=0.5, bidirectional=both, batch_first=both)
    model, seen = Around(inner, "output").to(dtype), []
    inner.register_forward_hook(lambda module, args, returned: seen.append(returned[0].detach()))
    real = RecurrentRule.parts_of
    again: list[Tensor] = []

    def parts_of(self: RecurrentRule, traces: list[Any], grads: Any) -> Any:
        last = traces[-2:] if both else traces[-1:]
        again.extend(trace.inputs for trace in last)
        return real(self, traces, grads)

    monkeypatch.setattr(RecurrentRule, "parts_of", parts_of)
    ENGINES["bookkeeping"].clipped_sum(model, loss, Chunk(data(dtype), torch.ones(ROWS)), Clip(0.5, 2.0**-30))
    with torch.no_grad():
        weights = [parameter for name, parameter in inner.named_parameters() if "_l2" in name]
        top = kind(again[0].shape[2], HIDDEN, bidirectional=both).to(dtype)
        for mine, theirs in zip(top.parameters(), weights, strict=True):
            mine.copy_(theirs)
        returned = top(again[0])[0]
    assert float((again[0] == 0).double().mean()) == pytest.approx(0.5, abs=0.2)
    wanted = seen[0] if not both else seen[0].transpose(0, 1)
    torch.testing.assert_close(returned, wanted, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-12)


def test_with_dropout_in_evaluation_mode_nothing_is_replayed() -> None:
    torch.manual_seed(0)
    model = Around(nn.LSTM(FEATURES, HIDDEN, 2, dropout=0.5), "output").double().eval()
    assert apart(model, data()) <= 1e-10


class Loop(nn.Module):
    """A cell that is called at every time step, and two cells in turn."""

    def __init__(self, kind: Any, *, bias: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, FEATURES)
        self.cell, self.other = kind(FEATURES, HIDDEN, bias), kind(HIDDEN, HIDDEN, bias)

    def forward(self, tokens: Tensor) -> Tensor:
        x, one, two = self.embed(tokens), None, None
        for t in range(tokens.shape[1]):
            one = self.cell(x[:, t], one)
            two = self.other(one[0] if isinstance(one, tuple) else one, two)
        assert two is not None
        return torch.sin(3 * torch.cat(two, 1)) if isinstance(two, tuple) else torch.sin(3 * two)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_a_cell_in_a_loop_agrees(kind: Any, dtype: torch.dtype, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Loop(kind, bias=bias).to(dtype)
    tokens = torch.randint(TOKENS, (ROWS, LENGTH))
    joined = []
    real = CellRule.join
    monkeypatch.setattr(CellRule, "join", lambda self, others: joined.append(len(others)) or real(self, others))
    assert apart(model, tokens) <= TOLERANCE[dtype]
    assert joined == [LENGTH - 1] * 2  # each cell is measured once for all of its calls


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(FEATURES, HIDDEN, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, torch.full((len(x),), 2), batch_first=True)
        return self.inner(packed)[1][0][-1]


def test_packed_sequences_are_refused_by_name_with_the_fix() -> None:
    with pytest.raises(UnsupportedModel, match=r"'inner' \(LSTM\) got a PackedSequence.*padded"):
        apart(Packed(), data(torch.float32))


def test_weights_tied_inside_and_parametrised_are_not_given_to_the_rule() -> None:
    tied = nn.RNN(HIDDEN, HIDDEN, 2)
    tied.weight_hh_l1 = tied.weight_hh_l0
    assert not RecurrentRule.covers(tied)
    normed = nn.utils.parametrizations.weight_norm(nn.GRU(HIDDEN, HIDDEN), "weight_hh_l0")
    assert not RecurrentRule.covers(normed)
    assert RecurrentRule.covers(nn.LSTM(HIDDEN, HIDDEN, proj_size=2))
    inner = nn.utils.parametrizations.weight_norm(nn.GRU(FEATURES, HIDDEN, batch_first=True), "weight_hh_l0")
    assert apart(Around(inner, "output").double(), data()) <= 1e-10  # alone
