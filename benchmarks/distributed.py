"""What a private step costs in several processes, against a step of DistributedDataParallel on the same global batch.

    torchrun --standalone --nproc-per-node 2 benchmarks/distributed.py W1 W4 --pairs 20
    python benchmarks/distributed.py W1 W4                     one process, with lanes

`plain` fetches its share of a random batch, and DDP adds gradients up. `private` is a step of the public loop,
`Training(shard="replicate").session()`, on a Poisson batch of the same expected size: drawing, clipping, sums in whole
numbers, noise, checks, ledger. They take turns, after a barrier each; times are those of the first process. `messages`:
what a process sends in a step over what DDP's all-reduce sends (a ring, gradients in single precision), with facts.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from contestants import MULTIPLIER, NORM, RATE, Setting, Step
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from discreet import Plan, Training
from discreet.distributed.ranks import Ranks
from discreet.training import EngineOptions, RunOptions

WARM = 3
SENT = {"private": 0.0}
"""Bytes that this process has sent in private steps."""


def plain(setting: Setting, ranks: Ranks) -> Step:
    """An ordinary step, on this process's share of the batch."""
    torch.manual_seed(0)
    data = setting.data()
    model = DistributedDataParallel(data.model) if ranks.size > 1 else data.model
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=RATE)
    share = max(1, data.batch // ranks.size)

    def step() -> None:
        rows = torch.randint(len(data.inputs), (share,))
        optimizer.zero_grad()
        loss(model(data.inputs[rows]), data.targets[rows]).backward()
        optimizer.step()

    return step


def private(setting: Setting) -> tuple[Step, int]:
    """A step of the public loop, and how many weights the model has."""
    torch.manual_seed(0)
    data = setting.data()
    plan = Plan.poisson(
        population=len(data.inputs),
        batch=data.batch,
        steps=10**5,
        clip_norm=NORM,
        noise_multiplier=MULTIPLIER,
        delta=1e-6,
    )
    loss = nn.CrossEntropyLoss()
    run = Training(
        plan,
        data.model,
        loss,
        torch.optim.SGD(data.model.parameters(), lr=RATE),
        (data.inputs, data.targets),
        run=RunOptions(Path(tempfile.mkdtemp()) / "run"),
        engine=EngineOptions("bookkeeping"),
        shard="replicate",
    )
    opened = ExitStack().enter_context(run.session())

    def step() -> None:
        with opened.step() as one:
            one.add_all(loss)

    return step, sum(parameter.numel() for parameter in data.model.parameters())


def count_messages(size: int) -> None:
    """Note what private steps send: rings for tensors, every frame of facts to every other process."""
    added, gathered, frames = Ranks.added_share, Ranks.gathered, Ranks._frames

    def noted_sum(self: Ranks, whole: Tensor, each: int) -> Tensor:
        SENT["private"] += whole.numel() * whole.element_size() * (size - 1) / size
        return added(self, whole, each)

    def noted_share(self: Ranks, share: Tensor, each: int) -> Tensor:
        SENT["private"] += share.numel() * share.element_size() * (size - 1)
        return gathered(self, share, each)

    def noted_facts(self: Ranks, content: bytes, length: int) -> list[bytes]:
        SENT["private"] += length * (size - 1)
        return frames(self, content, length)

    Ranks.added_share, Ranks.gathered, Ranks._frames = noted_sum, noted_share, noted_facts  # type: ignore[method-assign]


def measure(setting: Setting, pairs: int, ranks: Ranks) -> str:
    """A line of the table."""
    ours, weights = private(setting)
    steps = {"plain": plain(setting, ranks), "private": ours}
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(pairs + WARM):
        if turn == WARM:
            SENT["private"] = 0.0
        for name, step in steps.items():
            if ranks.size > 1:
                dist.barrier()
            start = time.perf_counter()
            step()
            taken[name].append(time.perf_counter() - start)
    ratios = np.array(taken["private"][WARM:]) / np.array(taken["plain"][WARM:])
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    plain_sends = 2 * (ranks.size - 1) / ranks.size * 4 * weights
    messages = f"{SENT['private'] / pairs / plain_sends:.2f}" if ranks.size > 1 else "-"
    plain_ms = 1e3 * float(np.median(taken["plain"][WARM:]))
    return f"| {setting.name} | {ranks.size} | {plain_ms:.1f} | {middle:.2f} | {low:.2f} to {high:.2f} | {messages} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["W1", "W4"])
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    ranks = Ranks.joined()
    count_messages(ranks.size)
    if ranks.first:
        print(f"torch {torch.__version__}, Python {platform.python_version()}, gloo, one thread each")
        print(
            "| workload | processes | plain ms | private over plain | quarters | messages |\n|---|---|---|---|---|---|"
        )
    for name in options.names:
        line = measure(Setting(name), options.pairs, ranks)
        if ranks.first:
            print(line, flush=True)


if __name__ == "__main__":
    main()
