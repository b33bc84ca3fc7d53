"""Private queries before or beside training: counts, sums, quantiles, histograms, covariance, choices, searches.

All queries on one draw of the data are asked in one call and are one event, charged before noise is drawn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet.core.trials import NegativeBinomialTrials, PoissonTrials
from discreet.queries.answering import Answers, joint_event, release
from discreet.queries.best_trial import Selected, select
from discreet.queries.charging import Account
from discreet.queries.choices import Choice, Quantile
from discreet.queries.pca import Components, principal_components
from discreet.queries.sums import Count, Covariance, Histogram, Mean, Sum

if TYPE_CHECKING:
    from discreet.queries.transformers import PrivatePCA, PrivateScaler

__all__ = [
    "Account",
    "Answers",
    "Choice",
    "Components",
    "Count",
    "Covariance",
    "Histogram",
    "Mean",
    "NegativeBinomialTrials",
    "PoissonTrials",
    "PrivatePCA",
    "PrivateScaler",
    "Quantile",
    "Selected",
    "Sum",
    "joint_event",
    "principal_components",
    "release",
    "select",
]


def __getattr__(name: str) -> Any:
    """Import the transformers, which need scikit-learn, on first use."""
    if name not in ("PrivatePCA", "PrivateScaler"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("discreet.queries.transformers"), name)
