"""What comes first in a random model where rows hold tokens."""

from __future__ import annotations

import random
from collections.abc import Callable

from fuzz_blocks import Built, Shape
from torch import nn

TOKENS = 6


def _table(rng: random.Random, shape: Shape) -> Built:
    return nn.Embedding(TOKENS, 4, padding_idx=rng.choice((None, 0))), (shape[0], 4)


def _bag(rng: random.Random, shape: Shape) -> Built:
    return nn.EmbeddingBag(TOKENS, 4, mode=rng.choice(("mean", "sum", "max"))), (4,)


STARTS: dict[str, Callable[[random.Random, Shape], Built]] = {"embedding": _table, "bag": _bag}
