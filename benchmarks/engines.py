"""Time and peak memory of the engines on one chunk, beside a plain gradient, on this machine or a graphics card.

    python benchmarks/engines.py W4 --rows 32
    python benchmarks/engines.py W3 W4 --rows 256 --device cuda
    python benchmarks/engines.py --agree --device cuda

`--agree` compares engines instead: dropout, reduced precision, modules run again, in double precision and not.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from workloads import LARGE, SMALL, problem

from discreet.clipping import ENGINES, Chunk, Clip, private_parameters
from discreet.clipping.engines.chunk_shape import under_autocast

CLIP = Clip(0.1, 2.0**-40)
LOSS = nn.CrossEntropyLoss()
NAMES = ("plain", "bookkeeping", "ghost", "vmap")


def function(who: str, name: str, rows: int, device: str) -> Callable[[], object]:
    """One call: clipped sums of a chunk, or the gradient of its mean."""
    model, inputs, targets = problem(name)
    repeats = -(-rows // len(inputs))
    inputs, targets = (part.repeat(repeats, *[1] * (part.dim() - 1))[:rows].to(device) for part in (inputs, targets))
    model.to(device)
    if who == "plain":
        return lambda: torch.autograd.grad(LOSS(model(inputs), targets), list(private_parameters(model).values()))
    return lambda: ENGINES[who].clipped_sum(model, LOSS, Chunk(inputs, targets), CLIP)


def measure(who: str, name: str, rows: int, device: str, calls: int) -> None:
    """Print milliseconds (median; of processor time, if that is where it runs) and the MiB that the calls add."""
    call = function(who, name, rows, device)
    on_card = device.startswith("cuda")
    before = torch.cuda.memory_allocated() if on_card else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    clock, times = time.perf_counter if on_card else time.process_time, []
    for _ in range(calls + 1):
        start = clock()
        call()
        if on_card:
            torch.cuda.synchronize()
        times.append(clock() - start)
    after = torch.cuda.max_memory_allocated() if on_card else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"| {name} | {who} | {statistics.median(times[1:]) * 1e3:.1f} | {(after - before) / 2**20:.0f} |")


class Recurrent(nn.Module):
    """The outputs of an LSTM, without its state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(32, 16, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def length(sums: dict[str, Tensor]) -> float:
    """The L2 norm of all tensors together."""
    return sum(float(part.double().square().sum()) for part in sums.values()) ** 0.5


def agree(device: str) -> None:
    """Print distances per row and clip norm: of two engines with the same random numbers, and of a whole chunk from its
    rows one at a time."""
    torch.manual_seed(0)
    layers = [nn.Linear(32, 64), nn.Dropout(0.5), nn.Tanh(), nn.Linear(64, 64), nn.Dropout(0.2), nn.Linear(64, 10)]
    dropped = nn.Sequential(*layers)
    recurrent = Recurrent()
    encoder = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True)
    inputs, targets = torch.randn(40, 32, device=device), torch.randint(10, (40,), device=device)
    sequences = torch.randn(40, 9, 32, device=device)

    def total(output: Tensor, _: Tensor) -> Tensor:
        return output.sin().sum()

    for dtype in (torch.float64, torch.float32):
        for label, model, given, loss in (
            ("dropout", dropped, inputs, LOSS),
            ("LSTM", recurrent, sequences, total),
            ("attention with dropout", encoder, sequences, total),
        ):
            sums = []
            for engine in ("bookkeeping", "ghost"):
                torch.manual_seed(3)
                model.to(device, dtype)
                rows = given.to(dtype).clone()
                rows[7] = float("nan")
                sums.append(ENGINES[engine].clipped_sum(model, loss, Chunk(rows, targets), CLIP))
            apart = length({key: sums[0][key].double() - sums[1][key] for key in sums[0]})
            print(f"| {label} | {dtype} | ghost and bookkeeping | {apart / 40 / CLIP.norm:.1e} |")
    for name in SMALL:
        model, given, labels = problem(name)
        given, labels, model = given[:24].to(device), labels[:24].to(device), model.to(device)
        for label, wrap in (("float32", lambda f: f), ("autocast", lambda f: under_autocast(f, torch.bfloat16))):
            call = wrap(ENGINES["bookkeeping"].clipped_sum)
            whole = call(model, LOSS, Chunk(given, labels), CLIP)
            alone = [call(model, LOSS, Chunk(given[i : i + 1], labels[i : i + 1]), CLIP) for i in range(24)]
            added = {key: torch.stack([one[key].double() for one in alone]).sum(0) for key in whole}
            apart = length({key: whole[key].double() - added[key] for key in whole}) / 24 / CLIP.norm
            longest = max(length(one) for one in alone) / CLIP.norm - 1
            print(f"| {name} | {label} | one at a time | {apart:.1e} | too long by {longest:.1e} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=(*SMALL, *LARGE))
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--engines", nargs="*", default=NAMES)
    parser.add_argument("--agree", action="store_true")
    parser.add_argument("--alone", help="measure this one in this process")
    options = parser.parse_args()
    if options.agree:
        agree(options.device)
        return
    if options.alone:
        measure(options.alone, options.names[0], options.rows, options.device, options.calls)
        return
    print(f"torch {torch.__version__}, {options.rows} rows, {options.device}, {torch.get_num_threads()} threads")
    print("| workload | engine | median ms | MiB added |\n|---|---|---|---|")
    for name in options.names:
        for who in options.engines:
            command = [sys.executable, __file__, name, "--alone", who]
            for key in ("rows", "calls", "device"):
                command += [f"--{key}", str(getattr(options, key))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            fault = (done.stderr.splitlines() or ["?"])[-1]
            print(done.stdout.strip() or f"| {name} | {who} | {fault[:90]} | |", flush=True)


if __name__ == "__main__":
    main()
