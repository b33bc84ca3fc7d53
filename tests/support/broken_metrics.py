"""Broken builds whose private metrics are not those that the plan pays for."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from broken_builds import broken, patched

from discreet.ledger import Ledger
from discreet.plan import Metric
from discreet.sampling.everyone import EveryoneSampler
from discreet.training.private_metrics import noisy_metrics
from discreet.training.private_metrics.noisy_metrics import PrivateMetrics

BOUGHT = {"metrics": [Metric(kind="accuracy", noise=3.0, every=4)]}
LOSSES = {"metrics": [Metric(kind="loss", noise=3.0, bound=2.0, every=4)]}


def metric_released(change: Any) -> Any:
    """Metrics whose release is `change(sum, noise)`."""
    real = noisy_metrics.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        found = real(total, *rest)
        (name,) = total.tensors
        exact = np.asarray(total.tensors[name])
        return dataclasses.replace(found, tensors={name: change(exact, found.tensors[name] - exact)})

    return patched((noisy_metrics, "gaussian_release", release))


@broken("accuracy on private rows without noise", "metrics", **BOUGHT)
def metric_without_noise() -> Any:
    return metric_released(lambda exact, noise: exact)


@broken("accuracy on private rows with half of the noise", "metrics", **BOUGHT)
def metric_with_half_noise() -> Any:
    return metric_released(lambda exact, noise: exact + 0.5 * noise)


@broken("losses that are bought are not bounded", "metrics", **LOSSES)
def losses_without_bound() -> Any:
    real = PrivateMetrics._values

    def values(self: Any, metric: Metric, data: Any, drawn: Any) -> Any:
        return [one * 5 if math.isfinite(one) else one for one in real(self, metric, data, drawn)]

    return patched((PrivateMetrics, "_values", values))


@broken("accuracy is divided by the rows that there are", "metrics", **BOUGHT)
def metric_divided_by_rows() -> Any:
    real, rows = Metric.value, [1.0]
    real_values = PrivateMetrics._values

    def values(self: Any, metric: Metric, data: Any, drawn: Any) -> Any:
        rows[0] = float(len(drawn))
        return real_values(self, metric, data, drawn)

    return patched(
        (Metric, "value", lambda self, total, units: real(self, total, rows[0])), (PrivateMetrics, "_values", values)
    )


@broken("metrics are bought and not charged", "metrics", **BOUGHT)
def metrics_not_charged() -> Any:
    from discreet.core.events import Gaussian
    from discreet.core.release import Receipt

    real, handed = Ledger.reserve, {}

    def reserve(self: Any, run: str, attempt: int, admission: Any) -> Any:
        position = handed.get(run, 0)
        events = tuple(admission(position))
        charged = tuple(one for one in events if not isinstance(one, Gaussian) or one.noise_multiplier != 3.0)
        real(self, run, attempt, lambda _: charged or events)
        handed[run] = position + len(events)
        return tuple(Receipt(run, attempt, position + i, one) for i, one in enumerate(events))

    return patched((Ledger, "reserve", reserve))


@broken(
    "a metric looks at all rows, and a tenth is paid for",
    "metrics",
    metrics=[Metric(kind="accuracy", noise=3.0, every=4, rate=0.1)],
)
def metric_of_all_rows() -> Any:
    return patched((Metric, "sampler", property(lambda self: EveryoneSampler())), (Metric, "event", Metric.event))


@broken("the noise of a metric is drawn once and kept", "metrics", **BOUGHT)
def metric_noise_reused() -> Any:
    kept: list[Any] = []

    def change(exact: Any, noise: Any) -> Any:
        kept.append(noise)
        return exact + kept[0]

    return metric_released(change)
