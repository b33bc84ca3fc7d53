"""What a private step costs, against a plain step of torch.optim.SGD on the same model and batch.

    python benchmarks/steps.py W1 W2 --pairs 30                          times
    python benchmarks/steps.py --peers all --save steps.json     with peers; what is in the file is not run again
    python benchmarks/steps.py W2 --peers "opacus ghost,vmap"
    python benchmarks/steps.py W1 --peers fastdp --fastdp ../fast-differential-privacy
    python benchmarks/steps.py --memory                          peak memory, each case in a process of its own
    python benchmarks/steps.py gpt2 gpt2-lora roberta        models of transformers
    python benchmarks/steps.py adapters --threads 1 --cpu    many adapters, where Python's calls are the time
    python benchmarks/steps.py gpt vit --device cuda --autocast --compile

One process, contestants interleaved (A B C A B C ...). A ratio is that of two steps of the same round; shown are the
median, its quartiles and the number of rounds. `session` is a step of the public loop, `Training.session()`: drawing,
fetching, clipping, noise, guards, ledger, optimizer, once a session has run for five seconds. `plain` fetches a random
batch as well. `private` is a step without what is around it: per-example clipping of one batch, grid, secure noise,
optimizer. `clipping` is the engine alone, `release` the rest, `noise` a part of it. A peer that is not installed or
cannot run the model says so; one that takes more than 20 plain steps runs in every fifth round only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contestants import PEERS, Ours, Setting, Step, plain, session
from memory import peak
from workloads import LANGUAGE, LARGE, NARROW, SMALL

WARM, SLOW, EVERY = 2, 20.0, 5
SECONDS_BEFORE = 5.0
"""So long a session runs before it is timed: batches have many sizes, and the first of a size costs more."""
Clock = Callable[[], float]
Row = dict[str, Any]


def parts(setting: Setting) -> dict[str, Step]:
    """The steps of our own that are timed, by name."""
    ours = Ours(setting)
    sums = ours.clipping()
    return {
        "plain": plain(setting),
        "private": ours.step,
        "clipping": ours.clipping,
        "release": lambda: ours.release(sums),
        "noise": ours.noise,
    }


def peers(setting: Setting, names: list[str]) -> tuple[dict[str, Step], list[Row]]:
    """The peers, or the session, that take a step, and rows on those that do not."""
    found, failed = {}, []
    for name in names:
        try:
            step = (PEERS | {"session": session})[name](setting)
            step()
            found[name] = step
        except ImportError:
            failed.append({"who": name, "note": "not installed"})
        except Exception as error:  # of whatever kind: it is shown
            failed.append({"who": name, "note": f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"})
    return found, failed


def measure(setting: Setting, pairs: int, names: list[str], clock: Clock) -> list[Row]:
    """A row for every contestant, the peers among them that are named."""
    functions = parts(setting)
    others, failed = peers(setting, ["session", *names])
    functions |= others
    _warmed(functions["session"])
    times: dict[str, list[tuple[float, float]]] = {key: [] for key in functions}
    for turn in range(pairs + WARM):
        base = 0.0
        for key, function in functions.items():
            slow = turn >= WARM and times[key] and times[key][0][0] > SLOW * times[key][0][1]
            if slow and turn % EVERY:
                continue
            taken = _time(function, clock)
            base = taken if key == "plain" else base
            if turn >= WARM:
                times[key].append((taken, base))
    return [_row(key, found) for key, found in times.items()] + failed


def _warmed(step: Step) -> None:
    end = time.monotonic() + SECONDS_BEFORE
    while time.monotonic() < end:
        step()


def _time(function: Step, clock: Clock) -> float:
    start = clock()
    function()
    return clock() - start


def _row(who: str, found: list[tuple[float, float]]) -> Row:
    ratios = [taken / base for taken, base in found]
    low, middle, high = (round(float(value), 3) for value in np.percentile(ratios, [25, 50, 75]))
    ms = round(1e3 * float(np.median([taken for taken, _ in found])), 2)
    return {"who": who, "ms": ms, "ratio": middle, "low": low, "high": high, "pairs": len(found)}


def clock_of(device: str, processor: bool) -> Clock:
    """Seconds, of the processor or of the wall, when all that was asked of the device is done."""
    now = time.process_time if processor else time.perf_counter
    if device == "cpu":
        return now

    def when_done() -> float:
        torch.cuda.synchronize()
        return now()

    return when_done


def show(name: str, rows: list[Row]) -> None:
    """Print the table of a workload."""
    print(f"\n| {name} | median ms | ratio | quarter to three quarters | pairs |\n|---|---|---|---|---|")
    for row in rows:
        if "note" in row:
            print(f"| {row['who']} | {row['note']} | | | |")
        else:
            spread = f"{row['low']} to {row['high']}"
            print(f"| {row['who']} | {row['ms']} | {row['ratio']:.2f} | {spread} | {row['pairs']} |")


def show_memory(settings: list[Setting], threads: int) -> None:
    """Print a table on memory; each case runs in a process of its own."""
    sides = "plain | private | ratio | checks | ratio"
    print(f"| workload | resident MiB, {sides} | in use MiB, {sides} |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for setting in settings:
        found = {}
        for who in ("plain", "private", "checks"):
            command = [sys.executable, __file__, "--threads", str(threads), "--peak", who, json.dumps(asdict(setting))]
            found[who] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        cells = [
            " | ".join([f"{plain}", *(f"{other} | {other / max(plain, 1):.2f}" for other in others)])
            for plain, *others in zip(*found.values(), strict=True)
        ]
        print(f"| {setting.name} | {' | '.join(cells)} |", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=SMALL, help=f"of {', '.join(SMALL + LARGE + NARROW + LANGUAGE)}")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time, on a busy machine")
    parser.add_argument("--peers", default="", help=f"all, or some of {', '.join(PEERS)}")
    parser.add_argument("--fastdp", type=Path, help="a checkout of FastDP, which is no package of a registry")
    parser.add_argument("--save", type=Path, help="a JSON file; workloads that it has are shown, not run again")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--autocast", action="store_true", help="the forward pass in bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile, where it can be used, on both sides")
    parser.add_argument("--tiny", action="store_true", help="the large models cut down, to see that they run")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.fastdp:
        sys.path.append(str(options.fastdp))
    warnings.filterwarnings("ignore")
    if options.peak:
        print(json.dumps(peak(options.peak[0], Setting(**json.loads(options.peak[1])))))
        return
    base = Setting("", options.batch, options.device, options.autocast, options.compile, options.tiny)
    settings = [replace(base, name=name) for name in options.names]
    about = f"torch {torch.__version__}, numpy {np.__version__}, Python {platform.python_version()}, "
    about += f"{options.threads} threads, {'processor' if options.cpu else 'wall'} time, {options.device}"
    about += f"{', bfloat16' * options.autocast}{', compiled' * options.compile}{', tiny' * options.tiny}"
    print(about)
    if options.memory:
        show_memory(settings, options.threads)
        return
    clock = clock_of(options.device, options.cpu)
    names = list(PEERS) if options.peers == "all" else [name for name in options.peers.split(",") if name]
    kept: dict[str, list[Row]] = {}
    if options.save and options.save.exists():
        kept = json.loads(options.save.read_text())
    for setting in settings:
        key = f"{setting.name}: {about}"
        if key not in kept:
            kept[key] = measure(setting, options.pairs, names, clock)
            if options.save:
                options.save.write_text(json.dumps(kept, indent=1))
        show(setting.name, kept[key])


if __name__ == "__main__":
    main()
