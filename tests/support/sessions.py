"""Steps taken by hand, and what another process sees of them in the ledger."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discreet.ledger import Ledger
from discreet.training import Session, Training

LOSS = nn.CrossEntropyLoss()


def charged(training: Training, run: str) -> int:
    """What another process sees in the ledger."""
    ledger = Ledger(training.folder.ledger)
    try:
        return ledger.charged_steps(run)
    finally:
        ledger.close()


def released(training: Training, run: str) -> int:
    """How far the ledger says that releases got."""
    ledger = Ledger(training.folder.ledger)
    try:
        return max((entry.position for entry in ledger.entries(run) if entry.kind == "release"), default=0)
    finally:
        ledger.close()


def take(session: Session, before_add: Callable[[tuple[Tensor, Tensor]], None] = lambda _chunk: None) -> None:
    with session.step() as step:
        for chunk in step.chunks:
            before_add(chunk)
            step.add(LOSS, chunk)


def weights(training: Training) -> Tensor:
    return torch.cat([parameter.detach().flatten().clone() for parameter in training.model.parameters()])
