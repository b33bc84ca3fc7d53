"""A weight that an embedding and a linear layer share: its norms and sums, beside gradients that are written out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.engines import bookkeeping
from discreet.clipping.engines.tied_weights import joined
from discreet.clipping.rules import base
from discreet.clipping.rules.embedding import EmbeddingRule
from discreet.clipping.rules.linear import LinearRule


def shares(
    words: int, tokens: Tensor, d: Tensor, a: Tensor, g: Tensor, padding: int | None = None
) -> list[tuple[EmbeddingRule | LinearRule, str]]:
    """The rules of one call of each, with these tensors as what was captured."""
    table = nn.Embedding(words, d.shape[-1], padding_idx=padding).to(d.dtype)
    head = nn.Linear(d.shape[-1], words, bias=False).to(d.dtype)
    head.weight = table.weight
    linear = LinearRule(head, ("weight",), (a,), {}, (g,))
    return [(EmbeddingRule(table, ("weight",), (tokens,), {}, (d,)), "weight"), (linear, "weight")]


def by_hand(words: int, tokens: Tensor, d: Tensor, a: Tensor, g: Tensor, padding: int | None = None) -> Tensor:
    """The gradients of examples, written out in float64."""
    found = []
    for token, own, one, other in zip(tokens, d.double(), a.double(), g.double(), strict=True):
        gradient = other.T @ one
        for place, number in enumerate(token.tolist()):
            if number != padding:
                gradient[number] += own[place]
        found.append(gradient)
    return torch.stack(found)


@given(
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_as_by_hand(
    count: int, length: int, positions: int, words: int, features: int, alike: bool, padded: bool, seed: int
) -> None:
    """Any numbers of tokens, positions, words and features; repeated tokens; one gradient for all tokens; padding."""
    torch.manual_seed(seed)
    tokens = torch.randint(words, (count, length))
    d = torch.randn(count, 1 if alike else length, features).expand(count, length, features).clone()
    a, g = torch.randn(count, positions, features), torch.randn(count, positions, words)
    padding, weights = 0 if padded else None, torch.rand(count, dtype=torch.float64)
    wanted = by_hand(words, tokens, d, a, g, padding)
    for turned in (False, True):
        held = shares(words, tokens, d, a, g, padding)
        found = joined(held[::-1] if turned else held)
        assert found is not None
        ((rule, name),), squares = found
        assert torch.allclose(squares.sqrt(), wanted.flatten(1).norm(dim=1), rtol=1e-4, atol=1e-3)
        rule.settle()
        total = rule.total(name, weights).double()
        assert torch.allclose(total, (weights.view(-1, 1, 1) * wanted).sum(0), rtol=1e-4, atol=1e-5)


def longest(words: int, tokens: Tensor, d: Tensor, a: Tensor, g: Tensor) -> float:
    """The norm of one example's gradient after it was weighted to 1 by its measured norm."""
    found = joined(shares(words, tokens, d, a, g))
    assert found is not None
    ((rule, name),), squares = found
    return float(rule.total(name, 1 / squares.sqrt()).double().norm())


@pytest.mark.parametrize("part", [-0.66, -0.675, -0.99, -0.9999, -1.0 + 1e-6])
@pytest.mark.parametrize("positions", [1, 600])
def test_terms_that_nearly_cancel_are_measured_as_they_are_summed(part: float, positions: int) -> None:
    """Positions of the linear layer that cancel each other, and an embedding's gradient that cancels the rest."""
    torch.manual_seed(1)
    features, words = 64, 9
    a = 1 + torch.rand(1, positions, features)
    g = torch.zeros(1, positions, words)
    g[:, :, 3] = torch.where(torch.arange(positions) % 2 == 0, 1.0, -0.98)
    d = (part * (g.double().mT @ a.double())[0, 3]).float().view(1, 1, features)
    assert longest(words, torch.tensor([[3]]), d, a, g) <= 1 + 2**-20


def test_thousands_of_equal_tokens_that_round_alike() -> None:
    tokens, d = torch.zeros(1, 4096, dtype=torch.long), torch.full((1, 4096, 8), 1.928)
    a = torch.full((1, 1, 8), -4096 * 1.928)
    assert longest(3, tokens, d, a, torch.tensor([[[1.0, 0, 0]]])) <= 1 + 2**-20


def test_and_where_the_gradients_are_formed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """L = -E as single precision would add E up: what is measured must be what the table adds up."""
    monkeypatch.setattr(base, "BUDGET", 3 * 8 * 4 - 1)
    tokens, d = torch.zeros(1, 4096, dtype=torch.long), torch.full((1, 4096, 8), 1.928)
    alike = torch.zeros(1, 8).index_add_(0, tokens[0], d[0])
    held = shares(3, tokens, d, -alike[None], torch.tensor([[[1.0, 0, 0]]]))
    assert joined(held) is None
    weight = 1 / bookkeeping._squares(held, None).sqrt()
    total = sum(one.total(name, weight).double() for one, name in held)
    assert float(total.norm()) <= 1 + 2**-20


def test_gradients_that_are_not_finite_are_not_hidden() -> None:
    torch.manual_seed(2)
    tokens, d, a, g = torch.tensor([[1], [2]]), torch.randn(2, 1, 3), torch.randn(2, 1, 3), torch.randn(2, 1, 4)
    g[1, 0, 0] = torch.inf
    found = joined(shares(4, tokens, d, a, g))
    assert found is not None
    assert torch.isfinite(found[1]).tolist() == [True, False]


def test_other_rules_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    held = shares(4, torch.zeros(1, 2).long(), torch.ones(1, 2, 3), torch.ones(1, 2, 3), torch.ones(1, 2, 4))
    assert joined(held[:1]) is None
    assert joined([held[0], held[0]]) is None
    assert joined([held[1], held[1]]) is None
    assert joined([*held, held[1]]) is None
    monkeypatch.setattr(base, "BUDGET", 4 * 3 * 4 - 1)  # no memory for one product
    assert joined(held) is None


class Language(nn.Module):
    """A table, one layer, and the table again."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(words, 6), nn.Linear(6, 6), nn.Linear(6, words, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(self.table(tokens)))).transpose(1, 2)


def apart_from_reference(words: int, norm: float = 0.1) -> float:
    torch.manual_seed(0)
    model, tokens = Language(words).double(), torch.randint(words, (5, 9))
    given = model, nn.CrossEntropyLoss(), Chunk(tokens[:, :-1], tokens[:, 1:]), Clip(norm, 2.0**-30)
    one, other = (ENGINES[name].clipped_sum(*given) for name in ("bookkeeping", "reference"))
    return sum(float((one[key] - other[key]).square().sum()) for key in other) ** 0.5


@pytest.mark.parametrize("norm", [0.1, 1e6])
@pytest.mark.parametrize("budget", [2**28, 1000])
@pytest.mark.parametrize("words", [7, 3000])
def test_clipped_sums_agree(words: int, budget: int, norm: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no memory for the products of all examples, and where nothing is clipped."""
    monkeypatch.setattr(base, "BUDGET", budget)
    assert apart_from_reference(words, norm) <= 1e-8


def test_gradients_of_the_table_that_are_left_out_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    real = LinearRule.squares_with_table
    monkeypatch.setattr(LinearRule, "squares_with_table", lambda self, t, spread, *x: real(self, t, 0 * spread, *x))
    assert apart_from_reference(7) > 1e-3


class Head(nn.Module):
    """Holds a bias that the layer inside holds as well, and perhaps uses it once more."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.again, self.bias, self.decoder = again, nn.Parameter(torch.randn(5)), nn.Linear(4, 5)
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.decoder(x)
        return scores + self.bias**2 if self.again else scores


@pytest.mark.parametrize("again", [False, True])
def test_a_parameter_that_a_module_inside_holds_as_well_is_counted_once(again: bool) -> None:
    """As in the heads of BERT and RoBERTa."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), Head(again))
    inputs, targets = torch.randn(6, 3), torch.arange(6) % 5
    for norm in (0.01, 1e6):
        one, other = (
            ENGINES[name].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), Clip(norm, 2.0**-30))
            for name in ("reference", "bookkeeping")
        )
        for name, part in one.items():
            assert torch.allclose(part.double(), other[name].double(), rtol=1e-4, atol=1e-5 * min(norm, 1.0))
