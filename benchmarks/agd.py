"""What a step of AGD costs, against a plain private step on the same model and rows: the gradient of every row, and 20
step sizes tried on every row.

    python benchmarks/agd.py                 every workload
    python benchmarks/agd.py digits --rounds 10

One process, one thread, contestants interleaved; a ratio is that of two steps of the same round. Shown are the medians
of the processor time and of the ratio, with its quartiles. `plain` is a session over the same plan with the policy
`Constant` and torch.optim.SGD: gradients clipped, noise, update, ledger. `agd` is that and the choice of the step size.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from torch import nn
from workloads import Cnn, Mlp

from discreet.accounting.adaptive.filters import ZcdpFilter
from discreet.methods import AGD
from discreet.plan import AdaptivePlan, Constant, LineSearch, NoSampling
from discreet.training import Training

CANDIDATES = 20
"""As in the experiments of Lee and Kifer (2018)."""

Step = Callable[[], None]

WORKLOADS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "digits": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), (1437, 1, 8, 8)),
    "mlp": (lambda: nn.Sequential(nn.Flatten(), Mlp(784)), (2000, 1, 28, 28)),
    "cnn": (Cnn, (2000, 1, 28, 28)),
}
"""Models, and the shape of random rows for them."""


def agd(model: nn.Module) -> tuple[torch.optim.Optimizer, LineSearch]:
    """The method: its optimizer and what decides its plan."""
    return AGD(model.parameters()), LineSearch(bound=3.0, epsilon=1e-3, candidates=CANDIDATES)


def plain(model: nn.Module) -> tuple[torch.optim.Optimizer, Constant]:
    """What it is compared with."""
    return torch.optim.SGD(model.parameters(), lr=1e-3), Constant()


@contextmanager
def steps_of(
    build: Callable[[nn.Module], tuple[torch.optim.Optimizer, LineSearch | Constant]], name: str
) -> Iterator[Step]:
    """A function that takes one step of a method on a workload."""
    made, shape = WORKLOADS[name]
    torch.manual_seed(0)
    model = made()
    optimizer, policy = build(model)
    rows = torch.rand(shape), torch.randint(10, (shape[0],))
    plan = AdaptivePlan.make(
        NoSampling(),
        population=shape[0],
        epsilon=100.0,
        delta=1e-5,
        clip_norm=1.0,
        policy=policy,
        noise_multiplier=1000.0,
        most_steps=10**6,
        filter_kind=ZcdpFilter.kind,
    )
    with tempfile.TemporaryDirectory() as folder:
        training = Training(plan, model, nn.CrossEntropyLoss(), optimizer, rows, run=Path(folder) / "run")
        with training.session() as session:

            def step() -> None:
                session.ready()
                with session.step() as one:
                    for chunk in one.chunks:
                        one.add(training.criterion, chunk)

            yield step


def seconds(step: Step) -> float:
    """Of processor time, so that other work on the machine does not count."""
    start = time.process_time()
    step()
    return time.process_time() - start


def measure(name: str, rounds: int) -> str:
    """One line about a workload."""
    with ExitStack() as stack:
        base, method = (stack.enter_context(steps_of(build, name)) for build in (plain, agd))
        for step in (base, method):
            step()
        pairs = [(seconds(base), seconds(method)) for _ in range(rounds)]
    low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4)
    plain_ms, agd_ms = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
    return f"{name:8} plain {plain_ms:8.1f} ms   agd {agd_ms:8.1f} ms   {middle:5.2f} x ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(WORKLOADS)}; by default all")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for name in given.workloads or WORKLOADS:
        print(measure(name, given.rounds), flush=True)


if __name__ == "__main__":
    main()
