"""What a private step costs, against a plain step of torch.optim.SGD on the same model and batch.

    python benchmarks/steps.py W1 W2 --pairs 30
    python benchmarks/steps.py --memory W1

One process, all contestants interleaved (A B C A B C ...), medians. `private` is a full step: per-example clipping of
the whole batch in physical chunks, grid, secure noise, optimizer. `clipping` is the engine alone; `release` is the
rest. Contestants beside ours run if they are installed: opacus (hooks), and plain vmap(grad).
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Clip, private_parameters
from discreet.core.events import Gaussian
from discreet.core.memory import keep_freed_memory
from discreet.core.release import Receipt
from discreet.mechanism import gaussian_release, grid_for
from discreet.randomness import NOISE_SAMPLERS, SystemStream, new_run_key
from discreet.training.apply import apply

NORM, MULTIPLIER, RATE = 1.0, 1.1, 0.05
LOSS = nn.CrossEntropyLoss()


class Mlp(nn.Module):
    """features-1000-10."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, 1000), nn.Linear(1000, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.relu(self.first(x)))


class Cnn(nn.Module):
    """The network of the TensorFlow Privacy tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 8, 2, padding=3), nn.Conv2d(16, 32, 4, 2)
        self.third, self.head = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2, 1)
        x = F.max_pool2d(F.relu(self.second(x)), 2, 1)
        return self.head(F.relu(self.third(x.flatten(1))))


class ResidualBlock(nn.Module):
    """Two normalised 3 x 3 convolutions beside a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(16, channels), nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm2, self.conv2 = nn.GroupNorm(16, out), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        same = stride == 1 and channels == out
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm1(x))
        side = x if isinstance(self.shortcut, nn.Identity) else self.shortcut(hidden)
        return self.conv2(F.relu(self.norm2(self.conv1(hidden)))) + side


class WideResNet(nn.Module):
    """WRN-16-4 with group norm."""

    def __init__(self) -> None:
        super().__init__()
        widths, blocks = [16, 64, 128, 256], []
        for number, (channels, out) in enumerate(itertools.pairwise(widths)):
            blocks += [ResidualBlock(channels, out, 1 if number == 0 else 2), ResidualBlock(out, out, 1)]
        self.conv, self.blocks = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.Sequential(*blocks)
        self.norm, self.head = nn.GroupNorm(16, 256), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.norm(self.blocks(self.conv(x)))).mean((2, 3)))


class Block(nn.Module):
    """A layer of a transformer encoder, normalised first."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.project, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def forward(self, x: Tensor) -> Tensor:
        count, length, features = x.shape
        parts = self.project(self.norm1(x)).view(count, length, 3, self.heads, features // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(count, length, features)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """Four layers of 256 features and 4 heads, over 10,000 tokens; the mean of the positions is classified."""

    def __init__(self, length: int = 128, features: int = 256) -> None:
        super().__init__()
        self.embed = nn.Embedding(10_000, features)
        angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, features, 2) / features)
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers = nn.Sequential(*[Block(features, 4) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(features), nn.Linear(features, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.embed(x) + self.places)).mean(1))


class Reviews(nn.Module):
    """The mean of 16 features of every word, and two small layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.hidden, self.head = nn.Embedding(10_000, 16), nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.hidden(self.embed(x).mean(1))))


def _tokens(rows: int, length: int, generator: torch.Generator) -> Tensor:
    """Token numbers whose logarithm is uniform, as frequent and rare words are."""
    return (torch.exp(torch.rand(rows, length, generator=generator) * math.log(10_000)).long() - 1).clamp(0, 9999)


WORKLOADS = ("W1", "W1b", "W2", "W3", "W4", "W5")


def problem(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Model, inputs and targets of a workload."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)

    def floats(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def labels(count: int, rows: int) -> Tensor:
        return torch.randint(count, (rows,), generator=generator)

    if name in ("W1", "W1b"):
        features = 784 if name == "W1" else 60
        return Mlp(features), floats(600, features), labels(10, 600)
    if name == "W2":
        return Cnn(), floats(256, 1, 28, 28), labels(10, 256)
    if name == "W3":
        return WideResNet(), floats(64, 3, 32, 32), labels(10, 64)
    if name == "W4":
        return Encoder(), _tokens(32, 128, generator), labels(2, 32)
    return Reviews(), _tokens(512, 256, generator), labels(2, 512)


class Ours:
    """The parts of a private step, as a session takes them."""

    def __init__(self, name: str, engine: str = "bookkeeping") -> None:
        keep_freed_memory()
        self.model, self.inputs, self.targets = problem(name)
        self.engine, self.optimizer = ENGINES[engine], torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.parameters, self.stream = private_parameters(self.model), SystemStream.start(new_run_key(), 0)
        self.clip, self.position = Clip(NORM, grid_for(Gaussian(MULTIPLIER), NORM)), 0

    def clipping(self) -> dict[str, Tensor]:
        """The engine alone."""
        return self.engine.clipped_sum(self.model, LOSS, self.inputs, self.targets, self.clip)

    def release(self, sums: dict[str, Tensor]) -> None:
        """From the sums to the optimizer's step."""
        accumulator = Accumulator(self.parameters)
        accumulator.add(sums)
        total = accumulator.total(self.engine, self.clip, 2 * len(self.inputs))
        receipt = Receipt("benchmark", 0, self.position, Gaussian(MULTIPLIER))
        self.position += 1
        release = gaussian_release(total, receipt, self.stream, NOISE_SAMPLERS["fast"])
        apply(release, self.parameters, self.optimizer, len(self.inputs))

    def step(self) -> None:
        """A whole private step."""
        self.release(self.clipping())

    def noise(self) -> None:
        """The noise alone."""
        size = sum(parameter.numel() for parameter in self.parameters.values())
        receipt = Receipt("benchmark", 0, self.position, Gaussian(MULTIPLIER))
        self.position += 1
        from discreet.randomness import Purpose

        NOISE_SAMPLERS["fast"].draw(self.stream.substream(Purpose.NOISE, receipt.position), size, 2**30)


def plain(name: str) -> Callable[[], None]:
    """An ordinary step of SGD."""
    model, inputs, targets = problem(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        LOSS(model(inputs), targets).backward()
        optimizer.step()

    return step


def with_opacus(name: str) -> Callable[[], None] | None:
    """A step of Opacus, if it is installed."""
    try:
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer
    except ImportError:
        return None
    model, inputs, targets = problem(name)
    wrapped = GradSampleModule(model)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-3),
        noise_multiplier=MULTIPLIER,
        max_grad_norm=NORM,
        expected_batch_size=len(inputs),
    )

    def step() -> None:
        optimizer.zero_grad()
        LOSS(wrapped(inputs), targets).backward()
        optimizer.step()

    return step


def contestants(name: str, peers: bool) -> dict[str, Callable[[], None]]:
    """What is timed, by name."""
    ours = Ours(name)
    sums = ours.clipping()
    found: dict[str, Callable[[], None]] = {
        "plain": plain(name),
        "private": ours.step,
        "clipping": lambda: ours.clipping() and None,
        "release": lambda: ours.release(sums),
        "noise": ours.noise,
    }
    if peers:
        found["vmap"] = Ours(name, "vmap").step
        opacus = with_opacus(name)
        if opacus is not None:
            found["opacus hooks"] = opacus
    return found


def measure(name: str, pairs: int, peers: bool, clock: Callable[[], float]) -> None:
    """Print a table of one workload."""
    functions = contestants(name, peers)
    times: dict[str, list[float]] = {key: [] for key in functions}
    for turn in range(pairs + 2):
        for key, function in functions.items():
            start = clock()
            function()
            if turn >= 2:
                times[key].append(clock() - start)
    base = statistics.median(times["plain"])
    print(f"\n| {name} | median ms | quarter to three quarters | ratio |\n|---|---|---|---|")
    for key, found in times.items():
        low, middle, high = np.percentile(found, [25, 50, 75]) * 1e3
        print(f"| {key} | {middle:.1f} | {low:.1f} to {high:.1f} | {middle / base / 1e3:.2f} |")


def peak(name: str, who: str) -> None:
    """Print the MiB that four steps add to the resident set of this process."""
    if who == "private":
        ours = Ours(name)
        function = ours.step
    else:
        function = plain(name)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(4):
        function()
    print(f"{(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024:.0f}")


def memory(name: str) -> None:
    """Print a row on memory; each case runs in a process of its own."""
    found = {}
    for who in ("plain", "private"):
        command = [sys.executable, __file__, name, "--peak", who]
        found[who] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(
        f"| {name} | {found['plain']:.0f} | {found['private']:.0f} | {found['private'] / max(found['plain'], 1):.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=WORKLOADS)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time, on a busy machine")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", choices=("plain", "private"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        peak(options.names[0], options.peak)
        return
    print(
        f"torch {torch.__version__}, numpy {np.__version__}, Python {platform.python_version()}, "
        f"{options.threads} threads, {'processor' if options.cpu else 'wall'} time"
    )
    if options.memory:
        print("| workload | plain MiB | private MiB | ratio |\n|---|---|---|---|")
    for name in options.names:
        if options.memory:
            memory(name)
        else:
            clock = time.process_time if options.cpu else time.perf_counter
            measure(name, options.pairs, options.peers, clock)


if __name__ == "__main__":
    main()
