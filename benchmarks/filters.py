"""What a filter costs a step, as rows for RESULTS.md: microseconds, beside a step of 5 ms.

    python benchmarks/filters.py [--steps 20000]

Every step is proposed by itself. The noise changes every 50 steps and never returns to a value of before, so that the
cost of each new event (a Rényi curve at 1, 20 or 38 orders) is in the mean. Processor time, as the machine may be
busy. An odometer "in a run" is read at every block, to end the run at a reading. `ledger` is a reservation of 50 steps
under an rdp-curve budget, less one without a budget, per step.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from discreet import Gaussian, Poisson, Repeat
from discreet.accounting.adaptive import filter_decision, odometers
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.filter_fit import curve_filter, gaussian_filter, order_filter, zcdp_filter
from discreet.accounting.adaptive.filters import Filter
from discreet.core.adjacency import Adjacency
from discreet.core.events import Compose, Event
from discreet.core.guarantee import Guarantee
from discreet.ledger import Ledger
from discreet.plan.adaptive.odometer_rule import Reading
from discreet.training.control.odometer_monitor import OdometerMonitor

STEP_MICROSECONDS = 5000.0
BLOCK = 50


def sampled(noise: float) -> Event:
    return Poisson(0.01, Gaussian(noise))


def shifted(event: Callable[[float], Event], shift: float) -> Callable[[float], Event]:
    """The same with more noise."""
    return lambda noise: event(noise + shift)


def per_step(propose: Callable[[Event], object], event: Callable[[float], Event], steps: int, new: bool) -> float:
    """Microseconds a step; with `new`, the noise of a block was never seen before."""
    fresh = itertools.count()
    began = time.process_time()
    for _ in range(steps // BLOCK):
        now = event(1.0 + 1e-6 * next(fresh) if new else 1.0)
        for _ in range(BLOCK):
            propose(now)
    return (time.process_time() - began) / steps * 1e6


def filter_rows(steps: int) -> None:
    course = Repeat(sampled(1.0), 20 * steps)
    filters: list[tuple[Filter, Callable[[float], Event]]] = [
        (order_filter(course, 20.0, 1e-5), sampled),
        (curve_filter(course, 20.0, 1e-5), sampled),
        (zcdp_filter(1e6, 1e-5), Gaussian),
        (gaussian_filter(1e6, 1e-5), Gaussian),
    ]
    for budget, event in filters:
        for new in (False, True):
            spent = [filter_decision.start(budget)]

            def propose(now: Event, budget: Filter = budget, spent: list[Amounts] = spent) -> None:
                spent[0] = filter_decision.propose(budget, spent[0], now).spent

            row(f"filter {budget.kind}", new, per_step(propose, event, steps, new))


def odometer_rows(steps: int) -> None:
    kinds: list[tuple[odometers.Odometer, Callable[[float], Event]]] = [
        (odometers.DoublingOdometer(1e-5), sampled),
        (odometers.RenyiOdometer(1e-5), sampled),
        (odometers.ZcdpOdometer.tuned(1e-5, 1.0), lambda noise: Gaussian(100 * noise)),
        (odometers.GaussianOdometer.tuned(1e-5, 500.0, 1.0), lambda noise: Gaussian(100 * noise)),
    ]
    for number, (odometer, event) in enumerate(kinds):
        spent = [odometers.start(odometer)]
        first, second = (shifted(event, shift + number) for shift in (1.5, 10.5))  # prices of others are cached

        def advance(now: Event, odometer: odometers.Odometer = odometer, spent: list[Amounts] = spent) -> None:
            spent[0] = odometers.advance(odometer, spent[0], odometer.cost(now))

        row(f"odometer {odometer.kind}", True, per_step(advance, first, steps, True))
        row(f"odometer {odometer.kind} in a run", True, in_a_run(odometer, second, steps))


def in_a_run(odometer: odometers.Odometer, event: Callable[[float], Event], steps: int) -> float:
    """Microseconds a step where a run is to end at a reading: the block is counted, read, and counted as charged."""
    dial = OdometerMonitor(Reading(odometer=odometer, most=1e6), Compose(()))
    began = time.process_time()
    for number in range(steps // BLOCK):
        dial.charge(dial.fitting((event(1.0 + 1e-6 * number),) * BLOCK))
    return (time.process_time() - began) / steps * 1e6


def ledger_row(blocks: int) -> None:
    """Interleaved, medians."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        ledger.set_budget("filtered", curve_filter(Repeat(sampled(1.0), 40000), 20.0, 1e-5))
        whole = Guarantee(1.0, 1e-5, Adjacency.ADD_REMOVE, "pld")
        runs = [ledger.open_run("plan", whole, dataset) for dataset in ("filtered", "free")]
        attempts = [ledger.start_attempt(run, "plan") for run in runs]
        times: list[list[float]] = [[], []]
        for _ in range(blocks):
            for which in (0, 1):
                began = time.process_time()
                ledger.reserve(runs[which], attempts[which], lambda _: [sampled(1.0)] * BLOCK)
                times[which].append(time.process_time() - began)
        ledger.close()
    row("ledger", False, (statistics.median(times[0]) - statistics.median(times[1])) / BLOCK * 1e6)


def row(name: str, new: bool, microseconds: float) -> None:
    changing = "every 50 steps" if new else "never"
    print(f"| {name} | {changing} | {microseconds:.1f} | {100 * microseconds / STEP_MICROSECONDS:.2f} % |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20_000)
    steps = parser.parse_args().steps
    print("| what | noise changes | microseconds a step | of a step of 5 ms |\n|---|---|---|---|")
    filter_rows(steps)
    odometer_rows(steps)
    ledger_row(200)
