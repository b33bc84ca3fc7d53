"""How much memory steps, and the checks before them, take above the loaded model, for steps.py."""

from __future__ import annotations

import ctypes
import gc
from functools import partial
from pathlib import Path

import torch
from contestants import Ours, Setting, Step, plain, session
from given_out import most_given_out
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip

STEPS = 4


def peak(who: str, setting: Setting) -> tuple[int, int]:
    """MiB that a few steps need at most, or the checks before a run, above what the process holds before them; and how
    much of it is in use, while the rest is holes that the allocator keeps between blocks.

    On processors: of the resident set, where the compilers that a process loads once have run before, and freed memory
    was given back. On a GPU: of what torch allocated there, all of it in use.
    """
    _load_compilers()
    made = {"private": lambda: Ours(setting).step, "plain": lambda: plain(setting), "checks": lambda: None}[who]()
    several = partial(session, setting) if made is None else partial(_repeat, made)
    gc.collect()
    if setting.device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        several()
        on_card = round((torch.cuda.max_memory_allocated() - before) / 2**20)
        return on_card, on_card
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    start = _kibibytes("VmRSS")
    in_use = most_given_out(several)
    return round((_kibibytes("VmHWM") - start) / 1024), round(in_use)


def _repeat(step: Step) -> None:
    for _ in range(STEPS):
        step()


class _Words(nn.Module):
    """A model with every rule that is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(4, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x).mean(1) + self.embed(x)[:, 0])


def _load_compilers() -> None:
    """Numba compiles what a private step uses: noise, rounding, and sums over equal tokens, of both kinds."""
    tokens, targets = torch.tensor([[0, 1], [1, 1]]), torch.tensor([0, 1])
    for model in (_Words(), nn.Sequential(nn.Embedding(4, 2), nn.AvgPool2d((2, 1)), nn.Flatten(), nn.Linear(2, 2))):
        ENGINES["bookkeeping"].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(tokens, targets), Clip(1.0, 2.0**-20))
    ours = Ours(Setting("W1b", batch=2))
    ours.step()


def _kibibytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")
