"""Losses of torch.nn with their options, and targets for them; what a model must return is a vector for each row."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 3
"""How many numbers a model returns for a row."""

Criterion = Callable[[Tensor, Tensor], Tensor]
Drawn = tuple[Criterion, Tensor]


def _classes(kind: Callable[..., nn.Module]) -> Callable[[random.Random, int, float], Drawn]:
    def draw(rng: random.Random, rows: int, size: float) -> Drawn:
        targets = torch.randint(0, WIDTH, (rows,))
        if rng.random() < 0.3:
            targets[rng.randrange(rows)] = -100
        return kind(rng), targets

    return draw


def _numbers(kind: Callable[[random.Random], Criterion], values: Callable[[int], Tensor], *, scaled: bool = False):  # type: ignore[no-untyped-def]
    def draw(rng: random.Random, rows: int, size: float) -> Drawn:
        return kind(rng), values(rows) * size if scaled else values(rows)

    return draw


def _reduction(rng: random.Random) -> str:
    return rng.choice(("mean", "sum"))


def _cross_entropy(rng: random.Random) -> nn.Module:
    weight = torch.rand(WIDTH) + 0.5 if rng.random() < 0.3 else None
    return nn.CrossEntropyLoss(weight, reduction=_reduction(rng), label_smoothing=rng.choice((0.0, 0.1)))


def _likelihood(rng: random.Random) -> Criterion:
    inner = nn.NLLLoss(reduction=_reduction(rng))
    return lambda output, target: inner(F.log_softmax(output, -1), target)


def _normal(rows: int) -> Tensor:
    return torch.randn(rows, WIDTH)


def _share(rows: int) -> Tensor:
    return torch.rand(rows, WIDTH)


def _binary(rows: int) -> Tensor:
    return torch.randint(0, 2, (rows, WIDTH)).to(torch.get_default_dtype())


def _signs(rows: int) -> Tensor:
    return 2 * _binary(rows) - 1


def _labels(rows: int) -> Tensor:
    """Sets of classes, ended by -1."""
    return torch.tensor([[i % WIDTH, -1, -1] if i % 2 else [0, 2, -1] for i in range(rows)])


def _own(output: Tensor, target: Tensor) -> Tensor:
    """No loss of torch.nn."""
    return (torch.sin(output) * target).sum()


def _proportional(output: Tensor, target: Tensor) -> Tensor:
    """Its slope is the target, whatever the output."""
    return (output * target).sum()


def _logits(rng: random.Random) -> nn.Module:
    weight = torch.rand(WIDTH) + 0.5 if rng.random() < 0.4 else None
    return nn.BCEWithLogitsLoss(pos_weight=weight, reduction=_reduction(rng))


def _bce(rng: random.Random) -> Criterion:
    inner = nn.BCELoss(reduction=_reduction(rng))
    return lambda output, target: inner(torch.sigmoid(output.nan_to_num()), target)  # torch refuses what is no number


def _divergence(rng: random.Random) -> Criterion:
    inner = nn.KLDivLoss(reduction=rng.choice(("batchmean", "sum")))
    return lambda output, target: inner(F.log_softmax(output, -1), target)


LOSSES: dict[str, Callable[[random.Random, int, float], Drawn]] = {
    "cross entropy": _classes(_cross_entropy),
    "likelihood": _classes(_likelihood),
    "multi margin": lambda rng, rows, size: (
        nn.MultiMarginLoss(p=rng.choice((1, 2)), margin=rng.choice((0.5, 1.0))),
        torch.randint(0, WIDTH, (rows,)),
    ),
    "squares": _numbers(lambda rng: nn.MSELoss(reduction=_reduction(rng)), _normal, scaled=True),
    "distance": _numbers(lambda rng: nn.L1Loss(reduction=_reduction(rng)), _normal, scaled=True),
    "smooth distance": _numbers(
        lambda rng: nn.SmoothL1Loss(reduction=_reduction(rng), beta=rng.choice((0.1, 1.0))), _normal, scaled=True
    ),
    "huber": _numbers(lambda rng: nn.HuberLoss(_reduction(rng), rng.choice((0.5, 1.0))), _normal, scaled=True),
    "logits": _numbers(_logits, _binary),
    "binary": _numbers(_bce, _share),
    "soft margin": _numbers(lambda rng: nn.SoftMarginLoss(reduction=_reduction(rng)), _signs),
    "hinge": _numbers(lambda rng: nn.HingeEmbeddingLoss(reduction=_reduction(rng)), _signs),
    "soft labels": _numbers(lambda rng: nn.MultiLabelSoftMarginLoss(reduction=_reduction(rng)), _binary),
    "label sets": _numbers(lambda rng: nn.MultiLabelMarginLoss(reduction=_reduction(rng)), _labels),
    "counts": _numbers(lambda rng: nn.PoissonNLLLoss(log_input=rng.random() < 0.5), _share),
    "divergence": _numbers(_divergence, _share),
    "its own": _numbers(lambda rng: _own, _normal),
    "proportional": _numbers(lambda rng: _proportional, _normal, scaled=True),
}
