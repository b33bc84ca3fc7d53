"""Norms of a weight that an embedding and a linear layer share, held against gradients that are formed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet.clipping import ENGINES, Clip
from discreet.clipping.engines import bookkeeping, tied_weights
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
    """The squared norms of gradients that are written out, in float64."""
    found = []
    for token, own, one, other in zip(tokens, d.double(), a.double(), g.double(), strict=True):
        gradient = other.T @ one
        for place, number in enumerate(token.tolist()):
            if number != padding:
                gradient[number] += own[place]
        found.append(gradient.square().sum())
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
    padding = 0 if padded else None
    held = shares(words, tokens, d, a, g, padding)
    found = tied_weights.tied_squares(held)
    assert found is not None
    wanted = by_hand(words, tokens, d, a, g, padding)
    assert bool((found >= wanted * (1 - 1e-5)).all())
    assert bool((found.sqrt() <= wanted.sqrt() + 1e-4 * sum(one.lengths("weight") for one, _ in held)).all())
    again = tied_weights.tied_squares(list(reversed(shares(words, tokens, d, a, g, padding))))
    assert torch.equal(found, again)


@pytest.mark.parametrize("words", [3, 4000])  # so that products are formed, and so that they are not
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_terms_that_cancel_leave_their_rounding(dtype: torch.dtype, words: int) -> None:
    """L = -E: the gradient is 0, and its norm is what 32 units in the last place of the terms come to."""
    torch.manual_seed(1)
    tokens = torch.stack([torch.randperm(words)[:3] for _ in range(4)])
    a = torch.randn(4, 3, 5, dtype=dtype)
    g = -torch.nn.functional.one_hot(tokens, words).to(dtype)
    held = shares(words, tokens, a.clone(), a, g)
    found = tied_weights.tied_squares(held)
    assert found is not None
    terms = sum(one.lengths("weight") for one, _ in held)
    assert bool((found.sqrt() <= 40 * torch.finfo(dtype).eps * terms).all())
    assert bool((found > 0).all())


def test_gradients_that_are_not_finite_are_not_hidden() -> None:
    torch.manual_seed(2)
    tokens, d, a, g = torch.tensor([[1], [2]]), torch.randn(2, 1, 3), torch.randn(2, 1, 3), torch.randn(2, 1, 4)
    g[1, 0, 0] = torch.inf
    found = tied_weights.tied_squares(shares(4, tokens, d, a, g))
    assert found is not None
    assert torch.isfinite(found).tolist() == [True, False]


def test_other_rules_are_left_alone() -> None:
    held = shares(4, torch.zeros(1, 2).long(), torch.ones(1, 2, 3), torch.ones(1, 2, 3), torch.ones(1, 2, 4))
    assert tied_weights.tied_squares(held[:1]) is None
    assert tied_weights.tied_squares([held[0], held[0]]) is None
    assert tied_weights.tied_squares([held[1], held[1]]) is None
    assert tied_weights.tied_squares([*held, held[1]]) is None


class Language(nn.Module):
    """A table, one layer, and the table again."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(words, 6), nn.Linear(6, 6), nn.Linear(6, words, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(self.table(tokens)))).transpose(1, 2)


def apart_from_reference(words: int) -> float:
    torch.manual_seed(0)
    model, tokens = Language(words).double(), torch.randint(words, (5, 9))
    given = model, nn.CrossEntropyLoss(), tokens[:, :-1], tokens[:, 1:], Clip(0.1, 2.0**-30)
    one, other = (ENGINES[name].clipped_sum(*given) for name in ("bookkeeping", "reference"))
    return sum(float((one[key] - other[key]).square().sum()) for key in other) ** 0.5


@pytest.mark.parametrize("words", [7, 3000])
def test_clipped_sums_agree_and_form_no_gradients_of_the_size_of_the_table(
    words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def formed(*_: object) -> None:
        raise AssertionError("gradients of the size of the table were formed")

    monkeypatch.setattr(bookkeeping, "_rows", formed)
    assert apart_from_reference(words) <= 1e-8


def test_a_cross_term_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    monkeypatch.setattr(LinearRule, "inner_products", lambda self, tokens, spread: torch.zeros(len(tokens)))
    assert apart_from_reference(7) > 1e-3
