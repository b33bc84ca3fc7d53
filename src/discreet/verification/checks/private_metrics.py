"""Checks of private metrics in a certificate, without the code that trains.

A fixed plan buys metrics at the steps that it names, as further events between its steps. Held-out units take part in
no step, and training units in no hold-out metric.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable
from typing import Any

from discreet.core.errors import InputError
from discreet.verification.checks.plan_events import Runs, composed, merged, places, planned, stated, steps_in
from discreet.verification.checks.pre_queries import queries_of

_FIELDS = {"kind", "noise", "every", "bound", "rows", "rate"}
_QUERIES = {"accuracy": "centred_bit", "loss": "loss", "size": "count"}
SIZE_IS_PUBLIC = ("fixed_size", "shuffle")
"""Samplers that need the number of rows to train on."""

MOST_BOUGHT = 2**20
"""Plans that buy more metrics are refused, so that a stranger's certificate cannot fill its reader's memory."""

BEFORE = "before"
"""The name of queries before the first step, in place of a metric's name."""


def metrics_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics that a plan buys; `InputError` if one lacks a field."""
    found: list[dict[str, Any]] = plan.get("metrics", [])
    for metric in found:
        if set(metric) != _FIELDS or metric["kind"] not in _QUERIES or metric["rows"] not in ("training", "holdout"):
            raise InputError(f"a metric needs exactly the fields {sorted(_FIELDS)}, a known kind and known rows")
        if (metric["kind"] == "loss") != (metric["bound"] is not None):
            raise InputError("a loss has a bound, and nothing else has")
        if metric["kind"] == "size" and (metric["every"], metric["rate"]) != (None, None):
            raise InputError("a size is bought once, of all units")
        if metric["kind"] == "size" and not _others(metric, found):
            raise InputError("a size is bought for nothing")
        numbers = [metric["noise"], *(metric[name] for name in ("bound", "rate") if metric[name] is not None)]
        if not all(type(value) in (int, float) and 0 < value < math.inf for value in numbers):
            raise InputError("the figures of a metric must be finite and above 0")
        if metric["every"] is not None and plan.get("kind") == "adaptive":
            raise InputError("metrics of an adaptive run are bought after each phase")
        if metric["every"] is not None and not (type(metric["every"]) is int and metric["every"] >= 1):
            raise InputError("a metric is bought every so many steps, a whole number")
    if len({name_of(metric) for metric in found}) < len(found):
        raise InputError("two metrics have the same name")
    held, share = any(metric["rows"] == "holdout" for metric in found), _share(plan)
    if held != (share is not None):
        raise InputError("rows are held out exactly where a metric is on held-out rows")
    if held and plan["sampling"]["kind"] in SIZE_IS_PUBLIC:
        raise InputError(f"{plan['sampling']['kind']} sampling needs to know how many rows it draws from")
    return found


def name_of(metric: dict[str, Any]) -> str:
    """The name of a metric."""
    return f"{metric['rows']}_{metric['kind']}"


def event_of(metric: dict[str, Any]) -> dict[str, Any]:
    """The event of buying a metric once."""
    noise, query = float(metric["noise"]), _QUERIES[metric["kind"]]
    event: dict[str, Any] = {"event": "gaussian", "noise_multiplier": noise, "query": query}
    return event if metric["rate"] is None else {"event": "poisson", "rate": metric["rate"], "of": event}


def in_order(plan: dict[str, Any]) -> list[tuple[dict[str, Any], int, str | None]]:
    """All events of a fixed plan as (event, how often, name of the metric; None for steps, `BEFORE` for queries)."""
    steps = planned(plan)
    whole, known = steps_in(steps), metrics_of(plan)
    if sum(whole // (metric["every"] or whole) for metric in known) > MOST_BOUGHT:
        raise InputError(f"more than {MOST_BOUGHT:,} purchases of metrics are not followed")
    events = {name_of(metric): event_of(metric) for metric in known}
    metrics = sorted(known, key=lambda metric: bool(metric["kind"] != "size"))
    found: list[tuple[dict[str, Any], int, str | None]] = [(event, 1, BEFORE) for event in queries_of(plan)]
    done = 0
    for event, count in steps:
        size, left = places(event), count
        while left > 0:
            due = min([whole, *(_due_after(done, metric, whole, known) for metric in metrics)])
            taken = min(left, (due - done) // size)
            if taken < 1:
                raise InputError(f"a metric falls inside a period of {size} steps")
            found.append((event, taken, None))
            done, left = done + taken * size, left - taken
            bought = [one for one in metrics if _due_after(done - 1, one, whole, known) == done]
            found += [(events[name_of(one)], 1, name_of(one)) for one in bought]
    return found


def all_events(plan: dict[str, Any]) -> Runs:
    """The events of a fixed plan, in order."""
    return merged((event, count) for event, count, _ in in_order(plan))


def parts(plan: dict[str, Any], events: dict[str, Any]) -> list[dict[str, Any]]:
    """Events that a change of one unit touches: for each part of the data, those of the part; or all of them.

    A unit's identifier decides its part. Given the earlier releases, the other part's releases have the same law on two
    neighbours, so they add nothing to the privacy loss. A replaced unit may change parts: then all events count.
    Queries before the first step are about both parts.
    """
    if _share(plan) is None or plan["adjacency"] == "replace_one":
        return [events]
    found: list[dict[str, Any]] = []
    for held in (False, True):
        runs = [
            (event, count)
            for event, count, name in in_order(plan)
            if name == BEFORE or (name is not None and name.startswith("holdout_")) is held
        ]
        found.append(composed(runs))
    return found


def check_bought(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check that each shown metric was charged once, at its place, and states the accuracy that its noise gives."""
    plan, shown = facts["plan"], facts["bought_metrics"]
    known, paid = {name_of(metric): metric for metric in metrics_of(plan)}, _paid(facts)
    planned = None if plan.get("kind") == "adaptive" or not shown else _At(in_order(plan))
    last, sizes = 0, set()
    for entry in shown:
        if set(entry) != {"step", "metric", "value", "standard_deviation"}:
            return False, "a metric that was bought has other fields than it should"
        step, metric = entry["step"], known.get(entry["metric"])
        if metric is None or type(step) is not int or paid.find(step)[0] != event_of(metric):
            return False, f"the metric {str(entry['metric'])[:80]!r} at step {str(step)[:20]} was not charged"
        if not last < step:
            return False, f"two metrics are shown for step {step}, or out of order"
        last = step
        if not (type(entry["value"]) is float and math.isfinite(entry["value"])):
            return False, f"the metric at step {step} has no value"
        sizes |= {metric["rows"]} if metric["kind"] == "size" else set()
        if not math.isclose(entry["standard_deviation"], _deviation(plan, metric, known, sizes), rel_tol=1e-9):
            return False, f"the metric at step {step} is not as exact as it says"
        if planned is not None and planned.find(step)[1] != entry["metric"]:
            return False, f"the plan buys another metric at step {step}"
    return True, f"{len(shown)} metrics on private rows, each one charged" if shown else "no metric on private rows"


class _At:
    """Finds the event that a charged step ends, if it ends one."""

    def __init__(self, runs: Iterable[tuple[dict[str, Any], int, str | None]]) -> None:
        self.runs = list(runs)
        self.ends = list(itertools.accumulate(count * places(event) for event, count, _ in self.runs))

    def find(self, step: int) -> tuple[dict[str, Any] | None, str | None]:
        """(event, name) of the event that ends with `step`; Nones if `step` is inside an event, or beyond all."""
        index = bisect.bisect_left(self.ends, step)
        if index == len(self.ends) or (self.ends[index] - step) % places(self.runs[index][0]):
            return None, None
        event, _, name = self.runs[index]
        return event, name


def _paid(facts: dict[str, Any]) -> _At:
    """The charged events, by step."""
    blocks = [stated(entry["body"]) for entry in facts["ledger"]["entries"] if entry["kind"] == "reservation"]
    return _At((event, count, None) for block in blocks for event, count in block)


def _deviation(plan: dict[str, Any], metric: dict[str, Any], known: dict[str, Any], sizes: set[str]) -> float:
    """The standard deviation of a metric: of its noise, and of the number of units (random, or noisy), each adding half
    the range."""
    if metric["kind"] == "size":
        return float(metric["noise"])
    share, rate = _share(plan), metric["rate"] or 1.0
    units, part = plan["population"], 1.0
    if share is not None:
        part = share if metric["rows"] == "holdout" else 1 - share
        units = units * share / (1 - share) if metric["rows"] == "holdout" else units
    half = (1.0 if metric["bound"] is None else metric["bound"]) / 2
    terms = [(metric["noise"] / (units * rate)) ** 2]
    if metric["rows"] in sizes:
        terms += [(1 - rate) / (units * rate), (known[f"{metric['rows']}_size"]["noise"] / units) ** 2]
    else:
        terms += [(1 - part * rate) / (units * rate)]
    return float(half * math.sqrt(math.fsum(terms)))


def _share(plan: dict[str, Any]) -> float | None:
    holdout = plan.get("holdout")
    if holdout is None:
        return None
    share = holdout["share"]
    if set(holdout) != {"share", "salt"} or type(share) is not float or not 0 < share < 1:
        raise InputError("a holdout has a share between 0 and 1, and a salt")
    return share


def _due_after(step: int, metric: dict[str, Any], whole: int, known: list[dict[str, Any]]) -> int:
    """The first step after `step` at which a metric is bought; a size is bought once, with the first other metric on
    its rows."""
    if metric["kind"] == "size":
        first = min(_due_after(0, other, whole, known) for other in _others(metric, known))
        return first if first > step else whole + 1
    every: int | None = metric["every"]
    return whole if every is None else step - step % every + every


def _others(size: dict[str, Any], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [other for other in known if other["rows"] == size["rows"] and other["kind"] != "size"]
