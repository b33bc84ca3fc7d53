"""Two ways to add up equal tokens, a compiled loop and sorting, against one-hot matrices."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.rules.token_sums import alike, checked_tokens, token_squares, token_table
from discreet.clipping.rules.tokens import EqualTokens

SIZE = 7


def drawn(length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens with repetitions, their gradients, and weights."""
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(SIZE, (4, length), generator=generator)
    values = torch.randn(4, length, 3, generator=generator, dtype=dtype)
    return tokens, values, torch.rand(4, length, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("length", [0, 1, 2, 19])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loop_agrees_with_one_hot_matrices(length: int, dtype: torch.dtype) -> None:
    tokens, values, weights = drawn(length, dtype)
    hot = F.one_hot(tokens, SIZE).double()
    gradients = torch.einsum("btv,btf->bvf", hot, values.double())
    torch.testing.assert_close(token_squares(tokens, values, SIZE), gradients.square().sum((1, 2)))
    table = torch.einsum("bt,btv,btf->vf", weights, hot, values.double())
    torch.testing.assert_close(token_table(tokens, values, weights, SIZE), table)
    torch.testing.assert_close(token_table(tokens[:, :0], values[:, :0], weights[:, :0], SIZE), torch.zeros_like(table))
    if length:
        same = torch.einsum("bt,btv,bf->vf", weights, hot, values[:, 0].double())
        torch.testing.assert_close(token_table(tokens, values[:, 0], weights, SIZE), same)


@pytest.mark.parametrize("length", [1, 2, 19])
def test_sorting_agrees_with_the_loop(length: int) -> None:
    """Sorting is what accelerators do; it runs on processors too."""
    tokens, values, _ = drawn(length, torch.float64)
    weights = torch.rand(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    groups = EqualTokens(tokens)
    sums = groups.sums(values.flatten(0, 1))
    squares = torch.zeros(4, dtype=torch.float64).index_add_(0, groups.examples, sums.square().sum(1))
    torch.testing.assert_close(squares, token_squares(tokens, values, SIZE))
    table = groups.table(SIZE, groups.range, sums, weights[groups.examples])
    torch.testing.assert_close(table, token_table(tokens, values, weights.unsqueeze(1).expand(4, length), SIZE))


def test_one_different_value_is_noticed() -> None:
    values = torch.randn(3, 1, 5).repeat(1, 6, 1)
    assert alike(values)
    values[1, 3, 4] += 1e-3
    assert not alike(values)
    assert not alike(torch.full((1, 2, 2), torch.nan))


@pytest.mark.parametrize("token", [-1, SIZE])
def test_a_token_outside_the_table_is_refused(token: int) -> None:
    with pytest.raises(IndexError, match="tokens"):
        checked_tokens(torch.tensor([[0, token]]), SIZE)
    assert checked_tokens(torch.tensor([[0, SIZE - 1]], dtype=torch.int32), SIZE).dtype == torch.int64


class MeanOfWords(nn.Module):
    """The mean over places of one table or, in two calls, of the same table twice; word 0 is padding."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(50, 8, padding_idx=0), nn.Embedding(50, 8, padding_idx=0)
        self.second.weight, self.calls = self.first.weight, calls

    def forward(self, x: Tensor) -> Tensor:
        mean: Tensor = self.first(x).mean(1)
        return mean if self.calls == 1 else mean + 2 * self.second(x).mean(1)


@pytest.mark.parametrize(("calls", "long"), [(1, 1e22), (2, 100.0)], ids=["beyond squares", "mostly padding"])
def test_a_text_with_a_loss_that_is_no_number_does_not_change_how_others_are_measured(calls: int, long: float) -> None:
    """The gradients of all others are the same at every place, which is measured at once as long as it is so for all.
    Gradients of 1e22 were taken out when it was not; and texts that are mostly padding had more room for rounding."""
    words = torch.zeros(41, 64, dtype=torch.int64)
    words[:, 0] = torch.randint(1, 50, (41,), generator=torch.Generator().manual_seed(0))
    slopes = torch.full((41, 8), long)
    slopes[40] = torch.nan

    def found(texts: int) -> Tensor:
        return ENGINES["bookkeeping"].clipped_sum(
            MeanOfWords(calls),
            lambda out, y: (out * y).sum(1),
            Chunk(words[:texts], slopes[:texts]),
            Clip(1.0, 2.0**-30),
        )["first.weight"]

    torch.testing.assert_close(found(41), found(40), rtol=0, atol=1e-6)
