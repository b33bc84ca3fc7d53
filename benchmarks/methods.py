"""What a step of each method costs, relative to one of private SGD on the same model and batch.

    python benchmarks/methods.py                       every method, an MLP 60-1000-10, 600 rows
    python benchmarks/methods.py adadp "adadp box" --pairs 50 --cpu

Whole steps of a run, from the receipt to the optimizer's step, after `--warm` of them, so that scales have been
learned. One process, contestants interleaved; a ratio is that of two steps of the same round. Shown are the median, its
quartiles and the number of rounds. Runs without sampling, so that every step has all rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from discreet.methods import DPAdamBC, TrainingMethod, adaclip, adadp, adal, adan, dpopt
from discreet.plan import NoSampling, Plan
from discreet.training import Session, Training
from discreet.training.preflight.engine_options import EngineOptions

BASE = "sgd"
Clock = Callable[[], float]


@dataclass(frozen=True)
class Contestant:
    """A method by what it gives to the plan and to training."""

    optimizer: torch.optim.Optimizer
    plan: dict[str, Any] = field(default_factory=lambda: {"clip_norm": 1.0})
    training: dict[str, Any] = field(default_factory=dict)


def shaped(method: TrainingMethod) -> Contestant:
    return Contestant(method.optimizer, {"clipping": method.clipping}, {"geometry": method.geometry})


CONTESTANTS: dict[str, Callable[[nn.Module], Contestant]] = {
    BASE: lambda model: Contestant(torch.optim.SGD(model.parameters(), lr=1e-3)),
    "adam": lambda model: Contestant(torch.optim.Adam(model.parameters(), lr=1e-3)),
    "adam_bc": lambda model: Contestant(DPAdamBC(model.parameters(), lr=1e-3)),
    "adal": lambda model: shaped(adal(model, 1e-3, clip_norm=1.0)),
    "adan": lambda model: shaped(adan(model, 1e-3, clip_norm=1.0)),
    "adadp": lambda model: shaped(adadp(model, 1e-3, clip_norm=1.0)),
    "adadp box": lambda model: shaped(adadp(model, 1e-3, clip_norm=1.0, kind="box")),
    "dpopt": lambda model: shaped(dpopt(model, 1e-3, clip_norm=1.0)),
    "dpopt box": lambda model: shaped(dpopt(model, 1e-3, clip_norm=1.0, kind="box")),
    "adaclip": lambda model: shaped(adaclip(model, 1e-3, clip_norm=1.0)),
}


def training(name: str, rows: int, engine: str, steps: int, folder: Path) -> Training:
    """A run of the method on random rows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(60, 1000), nn.ReLU(), nn.Linear(1000, 10))
    made = CONTESTANTS[name](model)
    plan = Plan.make(NoSampling(), population=rows, steps=steps, delta=1e-5, noise_multiplier=4.0, **made.plan)
    plan = plan.model_copy(update={"block": steps})
    data = torch.randn(rows, 60), torch.arange(rows) % 10
    return Training(
        plan,
        model,
        nn.CrossEntropyLoss(),
        made.optimizer,
        data,
        engine=EngineOptions(engine),
        run=folder / name.replace(" ", "-"),
        **made.training,
    )


def step(session: Session) -> None:
    """One step of a run."""
    with session.step() as open_step:
        for chunk in open_step.chunks:
            open_step.add(nn.CrossEntropyLoss(), chunk)


def measure(names: list[str], options: argparse.Namespace, clock: Clock) -> dict[str, list[tuple[float, float]]]:
    """Seconds of a step, and of the base's in the same round, by name."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    steps = options.warm + options.pairs
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runs = {name: training(name, options.rows, options.engine, steps, folder) for name in names}
        sessions = {name: stack.enter_context(run.session()) for name, run in runs.items()}
        for turn in range(steps):
            base = 0.0
            for name, session in sessions.items():
                start = clock()
                step(session)
                taken = clock() - start
                base = taken if name == BASE else base
                if turn >= options.warm:
                    times[name].append((taken, base))
    return times


def show(times: dict[str, list[tuple[float, float]]]) -> None:
    """Print the table."""
    print("| method | median ms | ratio | quarter to three quarters | pairs |\n|---|---|---|---|---|")
    for name, found in times.items():
        low, middle, high = np.percentile([taken / base for taken, base in found], [25, 50, 75])
        ms = 1e3 * float(np.median([taken for taken, _ in found]))
        print(f"| {name} | {ms:.2f} | {middle:.2f} | {low:.3f} to {high:.3f} | {len(found)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(CONTESTANTS), help=f"of {', '.join(CONTESTANTS)}")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--warm", type=int, default=10)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--engine", default="bookkeeping")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time, on a busy machine")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    about = f"torch {torch.__version__}, Python {platform.python_version()}, {options.threads} threads"
    print(f"{about}, {'processor' if options.cpu else 'wall'} time, {options.engine}, {options.rows} rows\n")
    names = [BASE, *(name for name in options.names if name != BASE)]
    show(measure(names, options, time.process_time if options.cpu else time.perf_counter))


if __name__ == "__main__":
    main()
