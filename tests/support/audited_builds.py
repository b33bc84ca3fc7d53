"""Honest builds to audit: four families of models under plans of every kind, on rows that are made up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from discreet.audit import Subject
from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.subject import memory
from discreet.clipping.separation import KnownResults
from discreet.clipping.separation.known_results import Remembered
from discreet.data import Sites
from discreet.plan import Plan, PoissonSampling
from discreet.training import EngineOptions, PublicData, RunOptions, Training
from discreet.training.preflight.engine_check import CHECKED
from discreet.training.preflight.model_check import TRIED_MODELS

UNITS = 48
Parts = tuple[nn.Module, torch.optim.Optimizer, tuple[Tensor, Tensor]]


def numbers() -> Parts:
    """64 numbers, as of a digit: two layers, each a group of the optimizer."""
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.3}]
    return model, torch.optim.SGD(groups, lr=0.5, momentum=0.5), (torch.zeros(1, 64), torch.zeros(1, dtype=torch.int64))


def images() -> Parts:
    """Images of one channel: convolutions, group norm."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.Tanh(), nn.Flatten(), nn.Linear(8 * 25, 5)
    )
    return (
        model,
        torch.optim.Adam(model.parameters(), lr=0.01),
        (torch.zeros(1, 1, 12, 12), torch.zeros(1, dtype=torch.int64)),
    )


class Bags(nn.Module):
    """The mean embedding of a text, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, 6), nn.Linear(6, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens).mean(1))


def texts() -> Parts:
    """Texts of 12 tokens, classified."""
    model = Bags()
    rows = torch.zeros(1, 12, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    return model, torch.optim.SGD(model.parameters(), lr=0.5), rows


class NextToken(nn.Module):
    """A language model: each token from those before it, by one head of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.asked, self.head = nn.Embedding(20, 8), nn.Linear(8, 16), nn.Linear(8, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        known = self.table(tokens)
        query, key = self.asked(known).chunk(2, dim=-1)
        later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        shares = (query @ key.transpose(1, 2)).masked_fill(later, -1e9).softmax(2)
        return self.head(shares @ known).transpose(1, 2)


def language() -> Parts:
    """Sequences of 8 tokens, and the token after each."""
    model = NextToken()
    rows = torch.zeros(1, 8, dtype=torch.int64), torch.zeros(1, 8, dtype=torch.int64)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01), rows


FAMILIES: dict[str, Callable[[], Parts]] = {
    "numbers": numbers,
    "images": images,
    "texts": texts,
    "language": language,
}

Pipeline = Callable[[MadeUp], object]


class CheckedBefore(KnownResults[Any]):
    """Results of a check that one subject shares with the training it is of, and with other tests where these do."""

    def __init__(self, check: Remembered[Any]) -> None:
        super().__init__()
        self._others = check._results.get() or KnownResults(0)

    def of(self, compute: Callable[[], Any], *given: object) -> Any:
        return super().of(partial(self._others.of, compute, *given), *given)


def build(
    family: str = "numbers",
    *,
    engine: str = "bookkeeping",
    sampling: Any = None,
    noise: float = 1.0,
    steps: int = 40,
    seed: int = 0,
    geometry: Callable[[nn.Module], Any] | None = None,
    public: PublicData | None = None,
    pipeline: Pipeline | None = None,
    data: Callable[[tuple[Tensor, Tensor]], object] = lambda rows: rows,
    chunk: int | None = None,
    lanes: int | None = None,
    sites: int | None = None,
    **plan: Any,
) -> Subject:
    """A training of a family that an audit takes. `plan`: of `Plan.make`, with a clip norm of .7 unless it says how to
    clip. `data`: what is made of the rows before they are given to `Training`. `lanes`: of a run that several processes
    may take. `sites`: at which the rows lie."""
    torch.manual_seed(seed)
    model, optimizer, (x, y) = FAMILIES[family]()
    chosen = PoissonSampling(rate=0.25) if sampling is None else sampling
    clipping = {} if "clipping" in plan or "clip_norm" in plan else {"clip_norm": 0.7}
    users = {"units": [i // 2 for i in range(2 * UNITS)]} if plan.get("unit") == "user" else {}
    count = 2 * UNITS if users else UNITS
    period = chosen.sampler(UNITS).period
    made = Plan.make(
        chosen,
        population=UNITS,
        steps=period * math.ceil(steps / period),
        delta=1e-5,
        noise_multiplier=noise,
        **clipping,
        **plan,
    )
    rows = x.expand(count, *x.shape[1:]).clone(), y.expand(count, *y.shape[1:]).clone()
    given: object = data(rows)
    if sites is not None:
        step = count // UNITS
        cuts = [*(step * number * (number + 1) // 2 for number in range(sites)), count]  # no two of one size
        at = {number: slice(*some) for number, some in enumerate(itertools.pairwise(cuts))}
        given = Sites({number: (rows[0][some], rows[1][some]) for number, some in at.items()}, sites)
        users = {name: {number: whose[some] for number, some in at.items()} for name, whose in users.items()}
    checked, tried = CheckedBefore(CHECKED), CheckedBefore(TRIED_MODELS)
    with TemporaryDirectory(dir=memory()) as folder, CHECKED.in_(checked), TRIED_MODELS.in_(tried):
        training = Training(
            made,
            model,
            nn.CrossEntropyLoss(),
            optimizer,
            given,
            run=RunOptions(Path(folder) / "run", lanes=lanes),
            shard=None if lanes is None and sites is None else "replicate",
            engine=EngineOptions(name=engine, physical_batch=chunk),
            geometry=None if geometry is None else geometry(model),
            public=public,
            **users,
        )
        return replace(Subject.of(training, pipeline), checked=checked, tried=tried)
