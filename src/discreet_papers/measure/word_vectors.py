"""The IMDb run of Bu et al. 2020 step by step, with one thing at a time as their program has it. Loads torch.

It certifies nothing: words are counted in private reviews, a batch's own size divides it, and the norm that clips may
be too small. The gradients of the network are written out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.core.array_types import IntArray
from discreet.data.hashing import hashed
from discreet.data.sets.imdb import reviews
from discreet.data.text import Taken, taken
from discreet_papers.part import Cell, Setting

WORDS, LENGTH, WIDTH, HIDDEN = 10_000, 256, 16, 16
RATE, NOISE, CLIP, LEARNING_RATE = 512 / 25_000, 0.56, 1.0, 0.02

Texts = dict[str, tuple[list[list[str]], Tensor]]
"""By part of the data set: the words of each review, and whether it is positive."""


def run(cell: Cell, setting: Setting) -> dict[str, Any]:
    """The accuracy on the test reviews after `steps` steps."""
    facts = cell.facts
    texts = _texts(facts["take"], setting)
    numbers = _frequent(texts["train"][0]) if facts["vocabulary"] == "frequent" else None
    encoded = {part: _encoded(words, numbers, last=facts["last"]) for part, (words, _) in texts.items()}
    generator = torch.Generator().manual_seed(cell.seed or 0)
    network = Network(generator)
    shares = _squared_shares(encoded["train"]) if facts["norm"] == "gradient" else torch.full((25_000,), 1 / LENGTH)
    optimizer = torch.optim.Adam(network.parameters, lr=LEARNING_RATE)
    inputs, targets = encoded["train"], texts["train"][1]
    for _ in range(facts["steps"]):
        drawn = (torch.rand(len(inputs), generator=generator) < RATE).nonzero()[:, 0]
        sums = network.clipped_sums(inputs[drawn], targets[drawn], shares[drawn])
        for parameter, total in zip(network.parameters, sums, strict=True):
            noise = NOISE * CLIP * torch.randn(total.shape, generator=generator)
            parameter.grad = (total + noise) / max(1, len(drawn))
        optimizer.step()
    right = network(encoded["test"])[-1].argmax(1) == texts["test"][1]
    return {"accuracy": round(float(right.double().mean()), 6)}


class Network:
    """Vectors of words, their mean, one hidden layer and two scores; initial values as Keras draws them."""

    def __init__(self, generator: torch.Generator) -> None:
        def uniform(most: float, *shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter((2 * torch.rand(*shape, generator=generator) - 1) * most)

        self.vectors = uniform(0.05, WORDS + 1, WIDTH)
        self.inner, self.outer = uniform((6 / 32) ** 0.5, HIDDEN, WIDTH), uniform((6 / 18) ** 0.5, 2, HIDDEN)
        self.inner_bias, self.outer_bias = (torch.nn.Parameter(torch.zeros(n)) for n in (HIDDEN, 2))
        self.parameters = [self.vectors, self.inner, self.inner_bias, self.outer, self.outer_bias]

    @torch.no_grad()
    def __call__(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean vectors, hidden values and scores of reviews (n, LENGTH)."""
        mean = self.vectors[words].mean(1)
        hidden = (mean @ self.inner.T + self.inner_bias).clamp(min=0)
        return mean, hidden, hidden @ self.outer.T + self.outer_bias

    @torch.no_grad()
    def clipped_sums(self, words: Tensor, targets: Tensor, shares: Tensor) -> list[Tensor]:
        """The sum of the reviews' gradients of cross entropy, each clipped, in the order of `parameters`.

        `shares`: the squared norm of the gradient of the vectors over that of the mean. It is the sum over different
        words of (times / LENGTH)^2, and 1 / LENGTH where repeated words are not added up.
        """
        mean, hidden, scores = self(words)
        wrong = torch.softmax(scores, 1)
        wrong[torch.arange(len(words)), targets] -= 1
        inner = (wrong @ self.outer) * (hidden > 0)
        back = inner @ self.inner
        squares = wrong.square().sum(1) * (hidden.square().sum(1) + 1)
        squares += inner.square().sum(1) * (mean.square().sum(1) + 1) + back.square().sum(1) * shares
        weights = (CLIP / squares.sqrt()).clamp(max=1)[:, None]
        vectors = torch.zeros_like(self.vectors)
        vectors.index_add_(0, words.reshape(-1), (weights * back / LENGTH).repeat_interleave(LENGTH, 0))
        wrong, inner = weights * wrong, weights * inner
        return [vectors, inner.T @ mean, inner.sum(0), wrong.T @ hidden, wrong.sum(0)]


def _texts(take: Taken, setting: Setting) -> Texts:
    """The last cell's words are kept, because the next cell usually has the same."""
    key = f"words of imdb: {take}"
    if key not in setting.kept:
        setting.kept.clear()
        setting.kept[key] = {}
        for part in ("train", "test"):
            found = reviews(setting.data, part)
            positive = torch.tensor([one for _, one, _ in found])
            setting.kept[key][part] = [taken(text, take) for _, _, text in found], positive
    texts: Texts = setting.kept[key]
    return texts


def _frequent(texts: Sequence[Sequence[str]]) -> Mapping[str, int]:
    """Numbers from 1 of the WORDS - 1 most frequent words."""
    counts = Counter(word for words in texts for word in words)
    return {word: number for number, (word, _) in enumerate(counts.most_common(WORDS - 1), 1)}


def _encoded(texts: Sequence[Sequence[str]], numbers: Mapping[str, int] | None, *, last: bool) -> Tensor:
    """(n, LENGTH): the first, or the last, words of each text, then zeros. A word is its number, WORDS if it has none;
    without `numbers` it is its hash."""
    found: IntArray = np.zeros((len(texts), LENGTH), np.int64)
    for row, words in zip(found, texts, strict=True):
        some = words[-LENGTH:] if last else words[:LENGTH]
        row[: len(some)] = [1 + hashed(w) % WORDS if numbers is None else numbers.get(w, WORDS) for w in some]
    return torch.from_numpy(found)


def _squared_shares(words: Tensor) -> Tensor:
    """For each review the sum over its different words of (times / LENGTH)^2."""
    found = [np.square(np.unique(row, return_counts=True)[1] / LENGTH).sum() for row in words.numpy()]
    return torch.tensor(found, dtype=torch.float32)
