"""The networks of the papers that `mlp` does not cover, by the names that recipes give them.

`mlp` is the others: 123, [16], 2 for Adult in Bu et al. 2020; 9, [10, 20, 10], 2 for Cancer and 60, [1000], 10 behind
the components of MNIST in Yu et al. 2019.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.features.initial_weights import drawn


def _short(vectors: nn.Embedding) -> None:
    """Initial values of at most 0.05: torch's, of size 1, would hide what few steps learn."""
    nn.init.uniform_(vectors.weight, -0.05, 0.05)


class MeanEmbedding(nn.Module):
    """The mean of the vectors of tokens (n, length), 0 to `tokens`: (n, width). Padding counts, as in Bu et al. 2020.

    Tokens may be floating point, as in `discreet predict`.
    """

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(tokens + 1, width)
        _short(self.vectors)

    def forward(self, tokens: Tensor) -> Tensor:
        mean: Tensor = self.vectors(tokens.long()).mean(1)
        return mean


class WordScores(nn.Module):
    """A linear layer on which tokens occur: (n, length), 0 for none, to (n, outputs).

    The scores of an input's tokens are summed and divided by the root of their number, so that inputs of all lengths
    weigh alike. That equals a linear layer on a row of indicators scaled to norm 1. It starts at zero.
    """

    def __init__(self, tokens: int, outputs: int) -> None:
        super().__init__()
        self.scores, self.common = nn.Embedding(tokens + 1, outputs), nn.Linear(1, outputs, bias=False)
        nn.init.zeros_(self.scores.weight)
        nn.init.zeros_(self.common.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        there = (tokens != 0).unsqueeze(2).to(self.scores.weight.dtype)
        size = there.sum(1).clamp(min=1).sqrt()  # (n, 1)
        total: Tensor = (self.scores(tokens.long()) * there).sum(1) / size + self.common(torch.ones_like(size) / 10)
        return total


class CollaborativeFiltering(nn.Module):
    """Neural collaborative filtering, simplified as in Bu et al. 2020: (n, 2), user and film, to (n, outputs).

    One branch multiplies vectors of `factors` numbers of user and film; the other puts vectors of `latent` numbers side
    by side; a last layer reads both.
    """

    def __init__(self, users: int, films: int, outputs: int, factors: int, latent: int) -> None:
        super().__init__()
        self.user_factors, self.film_factors = nn.Embedding(users, factors), nn.Embedding(films, factors)
        self.user_latent, self.film_latent = nn.Embedding(users, latent), nn.Embedding(films, latent)
        for vectors in (self.user_factors, self.film_factors, self.user_latent, self.film_latent):
            _short(vectors)
        self.head = nn.Linear(factors + 2 * latent, outputs)

    def forward(self, pairs: Tensor) -> Tensor:
        user, film = pairs.long().unbind(1)
        product = self.user_factors(user) * self.film_factors(film)
        read: Tensor = self.head(torch.cat([product, self.user_latent(user), self.film_latent(film)], dim=1))
        return read


class Biases(nn.Module):
    """A rating as a declared `middle` plus a global bias, a user's bias and a film's bias: (n, 2) to (n, 1).

    With `rank`, plus the inner product of vectors of this length for user and film, which start at random with
    deviation `scale`. `spread` is the weight of the global bias, `user_spread` that of the users' biases (films' have
    1): biases with a small weight move less and have less noise.
    """

    def __init__(
        self, users: int, films: int, middle: float, rank: int, scale: float, spread: float, user_spread: float
    ) -> None:
        super().__init__()
        self.user, self.film = nn.Embedding(users, 1 + rank), nn.Embedding(films, 1 + rank)
        self.common = nn.Linear(1, 1, bias=False)
        self.middle, self.spread, self.user_spread = middle, spread, user_spread
        for table in (self.user, self.film):
            nn.init.normal_(table.weight, std=scale)
            nn.init.zeros_(table.weight[:, :1])
        nn.init.zeros_(self.common.weight)

    def forward(self, pairs: Tensor) -> Tensor:
        user, film = self.user(pairs[:, 0].long()), self.film(pairs[:, 1].long())
        own = self.user_spread * user[:, :1] + film[:, :1] + (user[:, 1:] * film[:, 1:]).sum(1, keepdim=True)
        rating: Tensor = self.middle + own + self.common(torch.full_like(own, self.spread))
        return rating


def mnist_cnn(seed: int = 0) -> nn.Module:
    """Two convolutions and two layers for (n, 1, 28, 28): 26,010 parameters, as in the tutorial that Abadi et al. 2016
    and Bu et al. 2020 use."""
    with drawn(seed):
        return nn.Sequential(
            nn.Conv2d(1, 16, 8, stride=2, padding=3),
            nn.ReLU(),
            nn.MaxPool2d(2, stride=1),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.ReLU(),
            nn.MaxPool2d(2, stride=1),
            nn.Flatten(),
            nn.Linear(512, 32),
            nn.ReLU(),
            nn.Linear(32, 10),
        )


def mean_embedding(tokens: int, width: int = 16, hidden: int = 16, outputs: int = 2, seed: int = 0) -> nn.Module:
    """Words as vectors, their mean, one hidden layer: the IMDb network of Bu et al. 2020 with 10,000 tokens."""
    with drawn(seed):
        return nn.Sequential(
            MeanEmbedding(tokens, width), nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
        )


def word_scores(tokens: int, outputs: int = 2) -> nn.Module:
    """A linear layer on which of `tokens` words occur."""
    return WordScores(tokens, outputs)


def collaborative_filtering(
    users: int, films: int, outputs: int = 5, factors: int = 5, latent: int = 10, seed: int = 0
) -> nn.Module:
    """The MovieLens network of Bu et al. 2020."""
    with drawn(seed):
        return CollaborativeFiltering(users, films, outputs, factors, latent)


def biases(
    users: int,
    films: int,
    middle: float = 3.0,
    rank: int = 0,
    scale: float = 0.1,
    spread: float = 1.0,
    user_spread: float = 1.0,
    seed: int = 0,
) -> nn.Module:
    """Biases of users and films, and with `rank` the product of their vectors."""
    with drawn(seed):
        return Biases(users, films, middle, rank, scale, spread, user_spread)
