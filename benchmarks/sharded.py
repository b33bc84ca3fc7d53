"""What a private step costs where weights are shared out, against a plain step of FSDP2 on the same global batch.

    torchrun --standalone --nproc-per-node 2 benchmarks/sharded.py full lora --pairs 15
    python benchmarks/sharded.py full lora                                      one process that gathers its own
    torchrun --standalone --nproc-per-node 2 benchmarks/sharded.py full --memory
    python benchmarks/sharded.py full --memory --alone                          without shards

A language model of 6 blocks of width 256, rows of 64 tokens, 16 to each process and step, Adam. `full` trains all of
it, `lora` adapters of rank 8 (peft) on a frozen base. `plain` wraps every block and the model by `fully_shard`.
`private` is a step of `Training(shard="fully").session()`. They take turns, after a barrier each; times are those of
the first process. `messages`: bytes that a process sends in a private step over those of FSDP2 on paper, which gathers
weights twice and scatters gradients once, four bytes each.

Memory, in megabytes, is that of all tensors and arrays between two steps, and what more glibc's allocator has given
out at most within steps (mallinfo2, looked at every half millisecond). The resident size tells little: checks before
the run leave a heap of more than a gigabyte of free blocks, and steps touch new ones of them for a while.
"""

from __future__ import annotations

import argparse
import gc
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from contestants import MULTIPLIER, NORM
from given_out import most_given_out
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from discreet import Plan, Training
from discreet.distributed.ranks import Ranks
from discreet.training import EngineOptions, RunOptions
from distributed import SENT, count_messages

WIDTH, BLOCKS, HEADS, WORDS, LENGTH = 256, 6, 8, 2000, 64
WARM = 3


class Block(nn.Module):
    """A block of a GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        parts = self.qkv(self.before(x)).view(rows, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Gpt(nn.Module):
    """A language model; its output has the words along axis 1, as losses of torch want it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]).expand(tokens.shape))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).transpose(1, 2)


def made(name: str) -> tuple[nn.Module, list[nn.Parameter]]:
    """The model, and what is trained of it."""
    torch.manual_seed(0)
    model: nn.Module = Gpt()
    if name == "lora":
        model = get_peft_model(model, LoraConfig(r=8, target_modules=["qkv", "out", "up", "down"]))
    return model, [one for one in model.parameters() if one.requires_grad]


def texts(rows: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(WORDS, (rows, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def plain(name: str, rows: int, ranks: Ranks) -> Callable[[], None]:
    """An ordinary step of FSDP2, on this process's share of the batch."""
    model, _ = made(name)
    if ranks.size > 1:
        for module in model.modules():
            if isinstance(module, Block):
                fully_shard(module)
        fully_shard(model)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    loss, (inputs, targets) = nn.CrossEntropyLoss(), texts(40 * rows)

    def step() -> None:
        taken = torch.randint(len(inputs), (rows,))
        optimizer.zero_grad()
        loss(model(inputs[taken]), targets[taken]).backward()
        optimizer.step()

    return step


def private(name: str, rows: int, ranks: Ranks, shard: str | None) -> Callable[[], None]:
    """A step of the public loop."""
    model, held = made(name)
    batch, data = rows * ranks.size, texts(40 * rows * ranks.size)
    plan = Plan.poisson(
        population=len(data[0]), batch=batch, steps=10**5, clip_norm=NORM, noise_multiplier=MULTIPLIER, delta=1e-6
    )
    loss = nn.CrossEntropyLoss()
    run = Training(
        plan,
        model,
        loss,
        torch.optim.Adam(held, lr=1e-3),
        data,
        run=RunOptions(Path(ranks.from_first("a folder", tempfile.mkdtemp)) / "run"),  # that all of them see
        engine=EngineOptions("bookkeeping", physical_batch=2 * rows),
        shard=shard,
    )
    opened = ExitStack().enter_context(run.session())

    def step() -> None:
        with opened.step() as one:
            one.add_all(loss)

    return step


def measure(name: str, rows: int, pairs: int, ranks: Ranks) -> str:
    """A line of the table."""
    steps = {"plain": plain(name, rows, ranks), "private": private(name, rows, ranks, "fully")}
    taken: dict[str, list[float]] = {kind: [] for kind in steps}
    for turn in range(pairs + WARM):
        if turn == WARM:
            SENT["private"] = 0.0
        for kind, step in steps.items():
            if ranks.size > 1:
                dist.barrier()
            start = time.perf_counter()
            step()
            taken[kind].append(time.perf_counter() - start)
    ratios = np.array(taken["private"][WARM:]) / np.array(taken["plain"][WARM:])
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    model, held = made(name)
    whole, trained = (sum(one.numel() for one in part) for part in (model.parameters(), held))
    sends = 4 * (ranks.size - 1) / ranks.size * (2 * whole + trained)
    messages = f"{SENT['private'] / pairs / sends:.2f}" if ranks.size > 1 else "-"
    plain_ms = 1e3 * float(np.median(taken["plain"][WARM:]))
    return f"| {name} | {ranks.size} | {plain_ms:.0f} | {middle:.2f} | {low:.2f} to {high:.2f} | {messages} |"


def memory(name: str, rows: int, steps: int, ranks: Ranks, shard: str | None) -> str:
    """What a step of this process takes at most, in megabytes, and what is there between steps."""
    step = private(name, rows, ranks, shard)
    for _ in range(WARM):
        step()
    gc.collect()
    rest = _tensors()

    def several() -> None:
        for _ in range(steps):
            step()

    within = rest + most_given_out(several)
    weights = sum(one.numel() for one in made(name)[0].parameters()) * 4 / 2**20
    return f"| {name} | {ranks.size} | {shard or 'whole'} | {within:.0f} | {rest:.0f} | {weights:.0f} |"


def _tensors() -> float:
    """The size of all tensors and arrays that there are, in megabytes."""
    found: dict[int, int] = {}
    for one in gc.get_objects():
        if type(one) in (Tensor, nn.Parameter):
            found[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        elif type(one) is np.ndarray and one.base is None:
            found[one.ctypes.data] = one.nbytes
    return sum(found.values()) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["full", "lora"])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--rows", type=int, default=16, help="of each process and step")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without shards, in one process")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    ranks = Ranks() if options.alone else Ranks.joined()
    count_messages(ranks.size)
    if ranks.first:
        print(f"torch {torch.__version__}, Python {platform.python_version()}, gloo, one thread each", flush=True)
    for name in options.names:
        if options.memory:
            line = memory(name, options.rows, options.pairs, ranks, None if options.alone else "fully")
        else:
            line = measure(name, options.rows, options.pairs, ranks)
        if ranks.first:
            print(line, flush=True)


if __name__ == "__main__":
    main()
