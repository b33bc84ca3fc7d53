"""How long a whole job takes: `discreet train RECIPE`, beside a script with the same model and an ordinary loop.

    python benchmarks/whole_jobs.py mnist --data FOLDER [--pairs 5] [--threads 1] [--before CHECKOUT]
    python benchmarks/whole_jobs.py digits

Each is a process of its own, from its start to its end, in turns (A B C A B C ...). The script reads the data, takes as
many steps of SGD on as many random rows, evaluates 20 times and saves the weights: `loop` runs the front end in every
step and evaluation, `once` computes its features before, 1,024 rows at a time. The job does all that `discreet train`
does: checks, accounting, ledger, noise, certificate, report. Shown are median seconds, by the clock and of processors,
and the median of the ratios of the latter, which other programs disturb less. `before` is the same command with the
source of another checkout.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = {"mnist": 300, "digits": 40}
SHARE = {"mnist": 0.05, "digits": 0.25}
RATE = {"mnist": (20.0, 0.0), "digits": (0.5, 0.5)}


def script(name: str, folder: str, *, once: bool) -> None:
    """An ordinary loop, in this process."""
    import numpy as np
    import torch
    from torch import nn

    from discreet.features import Strokes

    if name == "mnist":
        from discreet.data.sets.mnist import mnist

        split = mnist(Path(folder))
        (inputs, labels), test, front = split.train, split.test, Strokes()
    else:
        from sklearn.datasets import load_digits

        from discreet.recipes.models.models import DigitStrokes

        loaded = load_digits()
        rows, kinds = torch.from_numpy(loaded.data.astype(np.float32)), torch.from_numpy(loaded.target)
        (inputs, labels), test, front = (rows[:1437], kinds[:1437]), (rows[1437:], kinds[1437:]), DigitStrokes()
    assert test is not None
    if once:
        with torch.no_grad():
            inputs, shown = (torch.cat([front(part) for part in torch.split(one, 1024)]) for one in (inputs, test[0]))
        test = shown, test[1]
    width = inputs.shape[1] if once else front(inputs[:1]).shape[1]
    head = nn.Linear(width, 10, bias=False)
    model = head if once else nn.Sequential(front, head)
    lr, momentum = RATE[name]
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    for step in range(STEPS[name]):
        chosen = torch.randint(len(inputs), (int(SHARE[name] * len(inputs)),))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
        if (step + 1) % (STEPS[name] // 20) == 0:
            with torch.no_grad():
                (model(test[0]).argmax(1) == test[1]).float().mean()
    torch.save(model.state_dict(), "model.pt")


def seconds(command: list[str], threads: int, source: Path) -> tuple[float, float]:
    """How long a command takes in an empty folder: seconds by the clock, and of processors."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(source)}
    with tempfile.TemporaryDirectory() as folder:
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
        taken, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", choices=sorted(STEPS))
    parser.add_argument("--data", default="")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--plain", choices=["loop", "once"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plain:
        script(given.name, given.data, once=given.plain == "once")
        return
    discreet = [str(Path(sys.executable).parent / "discreet"), "train", given.name]
    discreet += ["--data", given.data] if given.data else []
    here = [sys.executable, __file__, given.name, "--data", given.data, "--plain"]
    contestants = {"loop": [*here, "loop"], "once": [*here, "once"], "discreet": discreet}
    if given.name == "digits":
        contestants["discreet, auto and fast"] = [*discreet, "--set", "engine=auto", "--set", "noise=fast"]
    source = Path(__file__).parents[1] / "src"
    runs = {name: (command, source) for name, command in contestants.items()}
    if given.before:
        old = given.before.resolve() / "src"
        runs |= {f"{name}, before": (command, old) for name, command in contestants.items() if "discreet" in name}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(given.pairs):
        for name, (command, where) in runs.items():
            taken[name].append(seconds(command, given.threads, where))
    print(f"{given.name}, {given.threads} threads, {given.pairs} rounds\n")
    print("| | seconds | of processors | of the loop |\n|---|---|---|---|")
    for name, times in taken.items():
        wall, processor = (statistics.median(one) for one in zip(*times, strict=True))
        ratio = statistics.median(one[1] / loop[1] for one, loop in zip(times, taken["loop"], strict=True))
        print(f"| {name} | {wall:.1f} | {processor:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
