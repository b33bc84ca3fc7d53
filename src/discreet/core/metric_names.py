"""Names of metrics on public rows that say something of single classes, and what follows from their values."""

from __future__ import annotations

from collections.abc import Mapping

RECALL, ROWS = "recall: ", "rows: "
GROUP_ROWS = ": rows"
BASELINE_ACCURACY, BASELINE_RMSE = "baseline accuracy", "baseline rmse"
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

    Where classes were made to weigh alike, they do so here as well.
    """
    if BASELINE_BALANCED_ACCURACY in metrics:
        return metrics[BALANCED_ACCURACY] <= metrics[BASELINE_BALANCED_ACCURACY]
    if BASELINE_ACCURACY in metrics:
        return metrics["accuracy"] <= metrics[BASELINE_ACCURACY]
    return BASELINE_RMSE in metrics and metrics["rmse"] >= metrics[BASELINE_RMSE]
