"""What `discreet.testing` finds in a step of Opacus, set up as its own examples do. It needs Opacus (the extra dev).

    python benchmarks/audit_opacus.py

The step is its optimizer's: gradients of examples, clipped, summed, with noise, divided. The batches are its loader's.
What is claimed is what its accountant is told: one row moves the mean of a batch by at most C / (expected batch), under
add/remove, at the sampling rate of the loader.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from opacus import PrivacyEngine, __version__
from opacus.data_loader import DPDataLoader
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from discreet.testing import assert_private

NOISE, CLIP, BATCH = 1.2, 1.0, 8


def rows(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def make(inputs: Tensor, targets: Tensor) -> Callable[[Tensor, Tensor], list[Tensor]]:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, _ = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(inputs, targets), batch_size=BATCH),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
    )

    def step(x: Tensor, y: Tensor) -> list[Tensor]:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.pre_step()
        return [one.grad for one in model.parameters()]

    return step


def draws(size: int) -> list[Sequence[int]]:
    loader = DPDataLoader.from_data_loader(DataLoader(TensorDataset(*rows(size)), batch_size=BATCH))
    return list(loader.batch_sampler)


def audited(count: int) -> str:
    """The outcome for a data set of so many rows."""
    expected = int(count / len(range(0, count, BATCH)))  # as Opacus has it
    try:
        found = assert_private(
            make,
            rows=rows(count),
            sensitivity=CLIP / expected,
            noise=NOISE * CLIP / expected,
            draws=draws,
            rate=1 / len(range(0, 60, BATCH)),
        )
    except AssertionError as error:
        return str(error)
    return str(found)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"Opacus {__version__}, torch {torch.__version__}")
    for count in (39, 36):
        print(f"\n{count} rows, and one more\n{audited(count)}")


if __name__ == "__main__":
    main()
