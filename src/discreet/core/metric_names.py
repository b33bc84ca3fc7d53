"""Names of metrics on public rows that say something of single classes, and what follows from their values."""

from __future__ import annotations

from collections.abc import Mapping

RECALL, ROWS = "recall: ", "rows: "
GROUP_ROWS = ": rows"
BASELINE_ACCURACY, BASELINE_RMSE = "baseline accuracy", "baseline rmse"
CLIPPED = "targets clipped"
BALANCED_ACCURACY, BASELINE_BALANCED_ACCURACY = "balanced accuracy", "baseline balanced accuracy"


def rows_name(true: str, said: str) -> str:
    """The metric that counts rows of the class `true` of which the model says `said`."""
    return f"{ROWS}{true} as {said}"


def groups_in(metrics: Mapping[str, float]) -> list[str]:
    """The subgroups whose rows are counted, such as "sex=Female"."""
    counted = (name for name in metrics if name.endswith(GROUP_ROWS) and not name.startswith((RECALL, ROWS)))
    return [name.removesuffix(GROUP_ROWS) for name in counted]


def no_better(metrics: Mapping[str, float]) -> bool:
    """Whether one answer for all rows, the most frequent class or the mean, is at least as good as the model.

    Where classes were made to weigh alike, they do so here as well. Of several numbers, it holds for each of them.
    """
    if BASELINE_BALANCED_ACCURACY in metrics:
        return metrics[BALANCED_ACCURACY] <= metrics[BASELINE_BALANCED_ACCURACY]
    if BASELINE_ACCURACY in metrics:
        return metrics["accuracy"] <= metrics[BASELINE_ACCURACY]
    errors = amounts_in(metrics)
    return bool(errors) and all(error >= baseline for _, error, baseline in errors)


def unit_of(metric: str, targets: Mapping[str, str]) -> str:
    """The unit to write behind the value of a metric: " days" for an error of a target that is a date. `targets`:
    the kind of each, by name."""
    kind = metric.rpartition(": ")[2]
    if kind not in ("rmse", "mae", BASELINE_RMSE):
        return ""
    own = [name for name in targets if len(targets) == 1 or f": {metric}".endswith(f": {name}: {kind}")]
    return " days" if any(targets[name] == "date" for name in own) else ""


def amounts_in(metrics: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """For each target of a regression: the prefix of its metrics' names ("", or "stay: " where there are several), its
    root mean squared error, and that of predicting the mean."""
    groups = tuple(f"{group}: " for group in groups_in(metrics))
    names = [name.removesuffix(BASELINE_RMSE) for name in metrics if name.endswith(BASELINE_RMSE)]
    known = [name for name in names if not name.startswith(groups) and f"{name}rmse" in metrics]
    return [(name, metrics[f"{name}rmse"], metrics[f"{name}{BASELINE_RMSE}"]) for name in known]


def any_clipped(metrics: Mapping[str, float]) -> bool:
    """Whether some public targets are outside of the declared range; metrics count them as its end."""
    return any(name == CLIPPED or name.endswith(f": {CLIPPED}") for name in metrics)
