"""Language models on a graphics card, in bfloat16: a chunk of rows with their gradients clipped, beside a plain pass.

    python benchmarks/cards.py gpt gpt-lora gpt-1.3b gpt-1.3b-lora --peers "opacus ghost,vmap"
    python benchmarks/cards.py gpt --tiny --device cpu          to see that it runs

One process for each model, contestants interleaved. `plain`: forward, backward and a step of SGD on a batch of this
size, under autocast. `clipping`: the clipped sum of such a chunk, which is what a step repeats for every chunk of its
batch. `release`: once a step, from the sum to the weights, with noise that is drawn then; a run draws it beside the
chunks. `--chunks`: whole steps of the public loop, of so many chunks on average, beside plain ones that add up the
gradients of as many. Peers take a whole step on one chunk. Memory is what the first step allocates beside the weights,
in single precision.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from contestants import PEERS, Ours, Setting, Step, plain, session
from workloads import BATCH

WARM = 2


def measure(setting: Setting, rounds: int, peers: list[str], releases: int) -> None:
    """Print the rows of a model."""
    steps: dict[str, Step] = {"plain": plain(setting), "clipping": (ours := Ours(setting)).clipping}
    for name in peers:
        try:
            step = PEERS[name](setting)
            step()
            steps[name] = step
        except Exception as error:  # of whatever kind: it is shown
            print(f"| {setting.name} | {name} | {type(error).__name__}: {str(error).splitlines()[0][:70]} | | | |")
    found: dict[str, list[float]] = {name: [] for name in steps}
    peaks = dict.fromkeys(steps, 0.0)
    for turn in range(rounds + WARM):
        for name, step in steps.items():
            seconds, peak = timed(step, setting.device)
            peaks[name] = peaks[name] if turn else peak  # later steps begin with gradients of the one before
            found[name] += [seconds] if turn >= WARM else []
    tokens = tokens_of(setting)
    for name, seconds in found.items():
        ratio = float(np.median(np.array(seconds) / np.array(found["plain"])))
        show(setting.name, name, float(np.median(seconds)), tokens, f"{ratio:.2f}", peaks[name])
    if releases:
        sums = ours.clipping()
        taken = [timed(lambda: ours.release(sums), setting.device) for _ in range(releases + 1)][1:]
        show(setting.name, "release", float(np.median([one for one, _ in taken])), 0, "", max(one for _, one in taken))


def measure_loop(setting: Setting, rounds: int, chunks: int) -> None:
    """Print the rows of whole steps. Poisson batches vary, so means are told."""
    began = time.perf_counter()
    steps = {"plain step": plain(setting, chunks), "step of the public loop": session(setting, chunks)}
    for step in steps.values():
        timed(step, setting.device)
    ready = time.perf_counter() - began
    found = {name: [timed(step, setting.device) for _ in range(rounds)] for name, step in steps.items()}
    tokens = chunks * tokens_of(setting)
    for name, taken in found.items():
        seconds = [one for one, _ in taken]
        ratio = f"{np.mean(seconds) / np.mean([one for one, _ in found['plain step']]):.2f}"
        who = f"{name} of {chunks} chunks" + (f", ready after {ready:.0f} s" if name != "plain step" else "")
        show(setting.name, who, float(np.mean(seconds)), tokens, ratio, max(peak for _, peak in taken))


def tokens_of(setting: Setting) -> int:
    """The tokens of a chunk."""
    return (16 if setting.tiny else 1024) * (setting.batch or (2 if setting.tiny else BATCH[setting.name]))


def timed(step: Callable[[], object], device: str) -> tuple[float, float]:
    """Seconds until the device has done the step, and how many GiB it allocated at most above what was there before."""
    before = 0
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    step()
    if device == "cpu":
        return time.perf_counter() - start, 0.0
    torch.cuda.synchronize()
    return time.perf_counter() - start, (torch.cuda.max_memory_allocated() - before) / 2**30


def show(model: str, who: str, seconds: float, tokens: int, ratio: str, peak: float) -> None:
    """Print a row."""
    each = f"{tokens / seconds:,.0f}" if tokens else ""
    print(f"| {model} | {who} | {1e3 * seconds:.0f} | {each} | {ratio} | {peak:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", default="", help=f"some of {', '.join(PEERS)}")
    parser.add_argument("--releases", type=int, default=0, help="how many releases to time")
    parser.add_argument("--chunks", type=int, default=0, help="time whole steps of so many chunks instead")
    parser.add_argument("--batch", type=int, help="rows of a chunk")
    parser.add_argument("--tiny", action="store_true", help="the models cut down, to see that they run")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.alone:
        setting = Setting(options.names[0], options.batch, options.device, True, False, options.tiny)
        if options.chunks:
            measure_loop(setting, options.rounds, options.chunks)
            return
        measure(setting, options.rounds, [one for one in options.peers.split(",") if one], options.releases)
        return
    where = torch.cuda.get_device_name() if options.device != "cpu" else "processor"
    print(f"torch {torch.__version__}, {where}, bfloat16, 1,024 tokens a row, {options.rounds} rounds")
    print(
        "| model | who | median ms | tokens/s | over plain | GiB beside weights |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for name in options.names:
        given = [*sys.argv[1:]]
        others = [one for one in given if one not in options.names]
        subprocess.run([sys.executable, __file__, name, *others, "--alone"], check=False)


if __name__ == "__main__":
    main()
