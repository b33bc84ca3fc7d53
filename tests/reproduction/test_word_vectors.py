"""The loop of the IMDb run: its gradients against autograd, and its two norms against those written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from discreet_papers.measure import word_vectors
from discreet_papers.measure.word_vectors import LENGTH, Network, _squared_shares


def gradients(network: Network, words: Tensor, target: Tensor) -> list[Tensor]:
    """By autograd, of one review: the vectors position by position (LENGTH, WIDTH), then the other parameters."""
    vectors, inner, inner_bias, outer, outer_bias = network.parameters
    parts = embedding(words, vectors).detach().requires_grad_()
    hidden = torch.relu(parts.mean(0) @ inner.T + inner_bias)
    loss = cross_entropy(hidden @ outer.T + outer_bias, target)
    return list(torch.autograd.grad(loss, [parts, *network.parameters[1:]]))


@pytest.mark.parametrize("norm", ["gradient", "positions"])
@pytest.mark.parametrize("clip", [1e-3, 1e3])
def test_the_clipped_sum_is_that_of_autograd(norm: str, clip: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "CLIP", clip)
    generator = torch.Generator().manual_seed(1)
    network = Network(generator)
    words = torch.randint(0, 12, (5, LENGTH), generator=generator)  # each word occurs many times
    targets = torch.randint(0, 2, (5,), generator=generator)
    expected = [torch.zeros_like(one) for one in network.parameters]
    for review, target in zip(words, targets, strict=True):
        parts, *others = gradients(network, review, target)
        vectors = torch.zeros_like(network.vectors).index_add_(0, review, parts)
        clipped = vectors if norm == "gradient" else parts
        length = torch.cat([one.flatten() for one in (clipped, *others)]).norm()
        for total, one in zip(expected, (vectors, *others), strict=True):
            total += one * min(1.0, clip / length)
    shares = _squared_shares(words) if norm == "gradient" else torch.full((5,), 1 / LENGTH)
    for found, wanted in zip(network.clipped_sums(words, targets, shares), expected, strict=True):
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-7 * clip)


def test_one_word_throughout_is_sixteen_times_as_long_as_its_positions() -> None:
    alike = torch.full((1, LENGTH), 7)
    assert (_squared_shares(alike) / (1 / LENGTH)).sqrt().item() == pytest.approx(16)
