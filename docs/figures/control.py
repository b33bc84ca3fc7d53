"""Schedules, policies and odometers at work: pictures from the results of `benchmarks/schedules.py` and `policies.py`.

python docs/figures/control.py

Beside itself it writes `control-schedules.png` (Yu et al. 2019, Figures 4 and 12), `control-policies.png` and
`control-odometer.png` (Lecuyer 2021, Figures 1 and 2). Lines are means over the runs, bands go from the least to the
most.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discreet.accounting import rdp
from discreet.accounting.account import guarantee
from discreet.accounting.odometers import DoublingOdometer, RenyiOdometer
from discreet.core.adjacency import Query
from discreet.core.arrays import Array
from discreet.core.events import Event, Gaussian, Poisson, Repeat

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
STEPS = 98
DELTA, TUNING_DELTA = 1e-5, 1e-6
COLOURS = ("#0b5394", "#c0392b", "#7a6a00", "#38761d", "#674ea7", "#45818e")

Run = dict[str, Any]


def read(name: str) -> list[Run]:
    """The runs of a benchmark."""
    return [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]


def new(columns: int, rows: int) -> tuple[Figure, list[Axes]]:
    """A figure with a grid of axes."""
    figure = Figure(figsize=(4.4 * columns, 3.6 * rows), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(np.ravel(figure.subplots(rows, columns)))


def dress(axes: Axes, x: str, y: str, title: str) -> None:
    """Labels, a light grid and no box."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(True, color="#e3e6ea", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def band(axes: Axes, lines: Sequence[tuple[Array, Array]], colour: str, label: str, dashed: bool = False) -> None:
    """The mean of several lines where all of them are, and the range around it."""
    end = min(float(x[-1]) for x, _ in lines)
    at = np.asarray(lines[0][0])
    at = at[at <= end]
    values = np.array([np.interp(at, x, y) for x, y in lines])
    axes.plot(at, values.mean(0), color=colour, label=label, linestyle="--" if dashed else "-", linewidth=1.4)
    axes.fill_between(at, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)


def schedules_picture() -> None:
    """Noise and accuracy on public test images over the epochs, for every schedule of the paper's table."""
    runs = read("schedules.jsonl")
    figure, (noise, accuracy) = new(2, 1)
    names = [name for name in dict.fromkeys(run["name"] for run in runs) if not name.startswith("uniform for")]
    for name, colour in zip(names, COLOURS, strict=False):
        chosen = [run for run in runs if run["name"] == name]
        for run in chosen:
            noise.step(
                range(1, len(run["noise"]) + 1),
                run["noise"],
                where="pre",
                color=colour,
                linewidth=1.2,
                label=name if run is chosen[0] else None,
            )
        band(accuracy, [curve_of(run["curve"].items(), 1.0) for run in chosen], colour, name)
    dress(noise, "epoch", "noise multiplier", "Noise")
    dress(accuracy, "epoch", "accuracy on public test images, %", "All spend rho = 0.78125")
    accuracy.set_ylim(bottom=80)
    accuracy.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(HERE / "control-schedules.png")


def curve_of(pairs: Any, unit: float) -> tuple[Array, Array]:
    """Epochs and percent of (position, accuracy) pairs."""
    found = np.array([(float(at) / unit, 100 * value) for at, value in pairs])
    return found[:, 0], found[:, 1]


def policies_picture() -> None:
    """Accuracy, budget, noise and batch over the steps: the adaptive policies against fixed courses."""
    runs = read("policies.jsonl")
    figure, (accuracy, budget, noise, batch) = new(2, 2)
    for name, colour in zip(("fixed", "fixed, exact", "noise", "batch", "batch, one order"), COLOURS, strict=False):
        chosen = [run for run in runs if run["name"] == name]
        if not chosen:
            continue
        band(accuracy, [curve_of(run["curve"], STEPS) for run in chosen], colour, name)
        band(budget, [spent(run["events"]) for run in chosen], colour, name, dashed=name == "fixed, exact")
        for run in chosen[:1]:
            at, multipliers, rates = stretches(run["events"])
            noise.step(at, multipliers, where="post", color=colour, linewidth=1.3, label=name)
            batch.step(at, 20_000 * rates, where="post", color=colour, linewidth=1.3, label=name)
    dress(accuracy, "steps / 98", "accuracy on public test images, %", "Accuracy, three runs each")
    dress(budget, "steps / 98", "epsilon at delta 1e-5, by the Rényi curve", "Budget")
    dress(noise, "steps / 98", "noise multiplier", "Noise of one run")
    dress(batch, "steps / 98", "expected batch", "Batch of one run")
    accuracy.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(HERE / "control-policies.png")


def events_of(charged: Sequence[Sequence[float]], piece: int = STEPS) -> list[tuple[int, Event, bool]]:
    """(times, event, is it a step) in order, cut into pieces of an epoch at most."""
    found: list[tuple[int, Event, bool]] = []
    for times, multiplier, rate in charged:
        event: Event = Poisson(rate, Gaussian(multiplier)) if rate else Gaussian(multiplier, Query.COUNT)
        left = int(times)
        while left > 0:
            found.append((min(piece, left), event, bool(rate)))
            left -= min(piece, left)
    return found


def stretches(charged: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """Where each stretch begins, in epochs of 98 steps, and its multiplier and rate."""
    steps = [row for row in charged if row[2]]
    ends = np.cumsum([row[0] for row in steps]) / STEPS
    at = np.concatenate([[0.0], ends])
    last = steps[-1:]
    return at, np.array([row[1] for row in steps + last]), np.array([row[2] for row in steps + last])


def spent(charged: Sequence[Sequence[float]]) -> tuple[Array, Array]:
    """Epsilon of what was charged so far, by one Rényi curve: what a filter counts, and no guarantee by itself."""
    orders = np.asarray(rdp.ORDERS)
    total, at, steps, found = np.zeros(len(orders)), [0.0], 0, [0.0]
    for times, event, is_step in events_of(charged, piece=10 * STEPS):
        total = total + times * np.asarray(curve(event, tuple(orders)))
        steps += times if is_step else 0
        at.append(steps / STEPS)
        found.append(float(np.min(rdp.improved(orders, total, DELTA))))
    return np.array(at), np.array(found)


def curve(event: Event, orders: tuple[float, ...]) -> Array:
    """D_alpha of a step or of a count."""
    if isinstance(event, Poisson):
        assert isinstance(event.event, Gaussian)
        return rdp.sampled_gaussian(event.rate, event.event.noise_multiplier, orders)
    assert isinstance(event, Gaussian)
    return rdp.gaussian(event.noise_multiplier, orders)


def readings(charged: Sequence[Sequence[float]], odometer: DoublingOdometer | RenyiOdometer) -> tuple[Array, Array]:
    """What the odometer reads after each epoch."""
    total, at, steps, found = (
        np.zeros(len(odometer.orders)),
        [0.0],
        0,
        [odometer.reading((0.0,) * len(odometer.orders))],
    )
    for times, event, is_step in events_of(charged):
        total = total + times * np.asarray(odometer.cost(event))
        steps += times if is_step else 0
        at.append(steps / STEPS)
        found.append(odometer.reading(tuple(total)))
    return np.array(at), np.array(found)


def odometer_picture() -> None:
    """Accuracy, and what can be said of the privacy loss if the run stops there."""
    runs = read("policies.jsonl")
    figure, (accuracy, privacy) = new(2, 1)
    for name, colour in (("tuned", COLOURS[0]), ("tuned by counts", COLOURS[1])):
        chosen = [run for run in runs if run["name"] == name]
        if not chosen:
            continue
        band(accuracy, [curve_of(run["curve"], STEPS) for run in chosen], colour, name)
        paper = [readings(run["events"], DoublingOdometer(TUNING_DELTA)) for run in chosen]
        mixed = [readings(run["events"], RenyiOdometer(TUNING_DELTA)) for run in chosen]
        band(privacy, paper, colour, f"{name}: equation 5", dashed=True)
        band(privacy, mixed, colour, f"{name}: a mixture of orders")
    whole = guarantee(Repeat(Poisson(1 / STEPS, Gaussian(1.0)), 50 * STEPS), TUNING_DELTA)
    privacy.axhline(whole.epsilon, color="#333333", linewidth=1, linestyle=":", label="fixed plan, stopped or not")
    dress(accuracy, "epoch", "accuracy on public test images, %", "Accuracy, three runs each")
    dress(privacy, "epoch", "bound on the privacy loss, delta 1e-6", "If the run stops here (ex post)")
    accuracy.legend(frameon=False, fontsize=8, loc="lower right")
    privacy.set_ylim(top=10.5)
    privacy.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(HERE / "control-odometer.png")


if __name__ == "__main__":
    schedules_picture()
    policies_picture()
    odometer_picture()
