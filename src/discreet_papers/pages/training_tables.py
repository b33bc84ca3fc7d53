"""Training cells as tables and panels: means, spreads, differences seed by seed, curves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discreet_papers.pages import tables
from discreet_papers.pages.claims import claims_table, difference, paired
from discreet_papers.pages.pictures import Bar, Line, Panel, printed_marks
from discreet_papers.pages.tables import Table
from discreet_papers.part import Facts, Results
from discreet_papers.parts.odometer import READERS
from discreet_papers.parts.trained.training_runs import Sweep, TrainingRuns

_BANDS = "Lines are means of the runs, bands go from the least to the most; a line ends with the shortest of its runs."


def scores(metric: str, facts: Facts, results: Results) -> dict[int | None, float]:
    """The last value of the metric by seed; an accuracy in percent."""
    return {seed: _unit(metric) * result["metrics"][metric] for seed, result in results.of(facts)}


def runs_table(part: TrainingRuns, results: Results) -> Table:
    """A row for each run."""
    unit = " %" if part.metric == "accuracy" else ""
    printed = any(run.printed is not None for run in part.runs)
    head = ["run", "epochs", f"certified epsilon{_at(part)}", "runs", f"{_name(part.metric)}{unit}", "std. dev."]
    head += ["printed"] if printed else []
    head += [f"minus {part.versus}"] if part.versus else []
    rows = []
    for run in part.runs:
        values = scores(part.metric, part.facts(run.set), results)
        cells = [run.name, *_length_and_price(part.facts(run.set), results), str(len(values)), *_mean(values)]
        cells += [_printed(run.printed, part.metric)] if printed else []
        if part.versus:
            base = next(one for one in part.runs if one.name == part.versus)
            against = scores(part.metric, part.facts(base.set), results)
            cells.append("" if run is base else difference(paired(values, against)))
        rows.append(tuple(cells))
    note = f"Minus {part.versus}: the mean difference over seeds ± its standard error."
    return Table(tuple(head), tuple(rows), part.title, (note,) if part.versus and not part.claims else ())


def sweep_table(part: TrainingRuns, sweep: Sweep, results: Results) -> Table:
    """A row for each point, a column for each line."""
    head = [sweep.x]
    for line in sweep.lines:
        unit = " %" if part.metric == "accuracy" else ""
        head += [f"{_name(part.metric)}{unit} {line.name}".strip(), "std. dev.", f"certified epsilon{_at(part)}"]
    printed = any(point.printed is not None for point in sweep.points)
    rows = []
    for point in sweep.points:
        cells = [f"{point.x:g}"]
        for line in sweep.lines:
            facts = part.facts(line.set, point.set)
            cells += [*_mean(scores(part.metric, facts, results)), _length_and_price(facts, results)[1]]
        rows.append((*cells, *([_printed(point.printed, part.metric)] if printed else [])))
    title = ": ".join(filter(None, [part.title, sweep.title]))
    return Table((*head, *(["printed"] if printed else [])), tuple(rows), title)


def claims_of(part: TrainingRuns, results: Results) -> Table:
    """The paper's claims about the runs."""
    found = {run.name: scores(part.metric, part.facts(run.set), results) for run in part.runs}
    return claims_table(part.claims, found, lower_is_better=part.metric != "accuracy")


def draw(part: TrainingRuns, what: str, results: Results) -> Panel:
    """A panel over all runs."""
    named = [(run, results.of(part.facts(run.set))) for run in part.runs if run.drawn or what == "bars"]
    unit = _axis(part.metric)
    match what:
        case "bars":
            bars = [_bar(run.name, run.printed, part, run.set, results) for run, found in named if found]
            title = part.title if len(part.draws) == 1 else f"{part.title}: at the end"
            return Panel(title, unit, "", bars=bars)
        case "noise":
            lines = [_noise(run.name, found[0][1]) for run, found in named if found]
            return Panel("Noise of one run", "epoch", "noise multiplier", lines, bottom=0.0)
        case "batch":
            lines = [_batch(run.name, found[0][1], part.facts(run.set)) for run, found in named if found]
            return Panel("Batches of one run", "epoch", "expected batch", lines, bottom=0.0)
        case "budget":
            lines = [_budget(run.name, found) for run, found in named if found]
            counted = f"epsilon{_at(part)}"
            return Panel("What a Rényi filter counts", "epoch", counted, lines, bottom=0.0, caption=_bands(lines))
        case "odometer":
            lines = [line for run, found in named if found for line in _readings(run.name, found)]
            loss = f"bound on the privacy loss, delta {part.readings:g}"
            return Panel("If the run stops here (ex post)", "epoch", loss, lines, bottom=0.0, caption=_bands(lines))
        case "epsilon":
            lines = [
                _against_epsilon(run.name, found, part.metric)
                for run, found in named
                if found and "spending" in found[0][1]
            ]
            lines += _printed_ends(part, lines)
            price = f"certified epsilon{_at(part)}"
            title = "Over the price of a plan of so many steps"
            return Panel(title, price, unit, lines, bottom=part.least, caption=_bands(lines))
        case _:
            lines = [
                _band(run.name, [_curve(result, part.metric) for _, result in found]) for run, found in named if found
            ]
            lines += _printed_ends(part, lines)
            return Panel(part.title or "Over epochs", "epoch", unit, lines, bottom=part.least, caption=_bands(lines))


def sweep_panel(part: TrainingRuns, sweep: Sweep, results: Results) -> Panel:
    """Means over what varies, with the range."""
    lines = []
    for line in sweep.lines:
        points = []
        for point in sweep.points:
            values = list(scores(part.metric, part.facts(line.set, point.set), results).values())
            if values:
                points.append((point.x, statistics.mean(values), min(values), max(values)))
        if points:
            x, y, low, high = zip(*points, strict=True)
            lines.append(Line(line.name or part.metric, x, y, low=low, high=high))
    marks = [(point.x, _unit(part.metric) * point.printed) for point in sweep.points if point.printed is not None]
    lines += printed_marks(marks)
    return Panel(sweep.title, sweep.x, _axis(part.metric), lines, log=sweep.log, caption=_bands(lines))


def _length_and_price(facts: Facts, results: Results) -> tuple[str, str]:
    found = [result for _, result in results.of(facts)]
    if not found:
        return tables.MISSING, tables.MISSING
    lengths = sorted(round(result["epochs"], 1) for result in found)
    length = f"{lengths[0]:g}" if lengths[0] == lengths[-1] else f"{lengths[0]:g} to {lengths[-1]:g}"
    return length, tables.up(max(result["epsilon"] for result in found))


def _mean(values: Mapping[int | None, float]) -> tuple[str, str]:
    if not values:
        return tables.MISSING, tables.MISSING
    average = statistics.mean(values.values())
    digits = 2 if average > 10 else 4
    spread = f"{statistics.stdev(values.values()):.{digits}f}" if len(values) > 1 else tables.MISSING
    return f"{average:.{digits}f}", spread


def _printed(value: float | None, metric: str) -> str:
    if value is None:
        return tables.MISSING
    return f"{100 * value:.2f}" if metric == "accuracy" else f"{value:g}"


def _bar(name: str, printed: float | None, part: TrainingRuns, changes: dict[str, Any], results: Results) -> Bar:
    values = list(scores(part.metric, part.facts(changes), results).values())
    shown = None if printed is None else _unit(part.metric) * printed
    return Bar(name, statistics.mean(values), min(values), max(values), shown)


def _curve(result: Mapping[str, Any], metric: str) -> tuple[list[float], list[float]]:
    """Epochs, and percent or the metric."""
    unit = _unit(metric)
    return _epochs(result, [step for step, _ in result["curve"]]), [unit * value for _, value in result["curve"]]


def _epochs(result: Mapping[str, Any], steps: Sequence[float]) -> list[float]:
    """Epochs after `steps` steps, in which batches may change."""
    if not result["noise"]:
        return [0.0 for _ in steps]
    counts, _, rates = np.array(result["noise"], dtype=float).T
    ends = np.concatenate([[0.0], np.cumsum(counts)])
    return list(np.interp(steps, ends, np.concatenate([[0.0], np.cumsum(counts * rates)])))


def _printed_ends(part: TrainingRuns, lines: Sequence[Line]) -> list[Line]:
    """The paper's figures at the ends of the runs' lines, unless another panel compares them."""
    printed = {run.name: run.printed for run in part.runs if run.printed is not None}
    ends = [(line.x[-1], _unit(part.metric) * printed[line.label]) for line in lines if line.label in printed]
    return [] if "bars" in part.draws else printed_marks(ends)


def _bands(lines: Sequence[Line]) -> str:
    return _BANDS if any(line.low is not None for line in lines) else ""


def _name(metric: str) -> str:
    return "RMSE" if metric == "rmse" else metric


def _axis(metric: str) -> str:
    return "accuracy on public test rows, %" if metric == "accuracy" else f"{_name(metric)} on public test rows"


def _at(part: TrainingRuns) -> str:
    """The common delta of all runs, as text; empty if they differ."""
    deltas = {part.facts(run.set)["recipe"].get("delta") for run in part.runs} or {part.recipe.get("delta")}
    (delta,) = deltas if len(deltas) == 1 else (None,)
    return "" if delta is None else f" at delta {delta:g}"


def _unit(metric: str) -> float:
    """An accuracy is shown in percent."""
    return 100.0 if metric == "accuracy" else 1.0


def _band(name: str, curves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Line:
    """The mean of several curves, up to the end of the shortest, with their range."""
    end = min(x[-1] for x, _ in curves)
    at = [x for x in curves[0][0] if x <= end * (1 + 1e-9)]
    values = np.array([np.interp(at, x, y) for x, y in curves])
    low, high = (values.min(0), values.max(0)) if len(curves) > 1 else (None, None)
    return Line(name, at, list(values.mean(0)), low=low, high=high)


def _noise(name: str, result: Mapping[str, Any]) -> Line:
    return _stretches(name, [(steps * rate, multiplier) for steps, multiplier, rate in result["noise"]])


def _batch(name: str, result: Mapping[str, Any], facts: Facts) -> Line:
    population = float(facts["recipe"]["population"])
    return _stretches(name, [(steps * rate, population * rate) for steps, _, rate in result["noise"]])


def _stretches(name: str, values: Sequence[tuple[float, float]]) -> Line:
    """(epochs, value), one after the other."""
    x, y, at = [], [], 0.0
    for epochs, value in values:
        x += [at, at := at + epochs]
        y += [value, value]
    return Line(name, x, y, steps=True)


def _budget(name: str, found: Sequence[tuple[int | None, Mapping[str, Any]]]) -> Line:
    return _band(name, [_over_epochs(result, result["budget"]) for _, result in found])


def _over_epochs(result: Mapping[str, Any], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Values of the first evaluations, with the epochs at which they were."""
    return _epochs(result, [step for step, _ in result["curve"]])[: len(values)], list(values)


def _readings(name: str, found: Sequence[tuple[int | None, Mapping[str, Any]]]) -> list[Line]:
    """A line for each odometer."""
    lines = []
    for reader, (_, label) in READERS.items():
        line = _band(f"{name}: {label}", [_over_epochs(result, result["readings"][reader]) for _, result in found])
        lines.append(replace(line, style="dashed" if reader == "doubling" else "solid", role=f"run {name}"))
    return lines


def _against_epsilon(name: str, found: Sequence[tuple[int | None, Mapping[str, Any]]], metric: str) -> Line:
    line = _band(name, [_curve(result, metric) for _, result in found])
    first = found[0][1]
    steps, epsilons = zip(*first["spending"], strict=True)
    x = np.interp(line.x, _epochs(first, steps), epsilons)
    return Line(name, list(x), line.y, low=line.low, high=line.high)
