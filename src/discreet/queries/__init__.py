"""Private queries before or beside training: counts, sums, quantiles, histograms, covariance, choices, searches.

All queries on one draw of the data are asked in one call and are one event, charged before noise is drawn.
"""

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials
from discreet.queries.answering import Answers, joint_event, release
from discreet.queries.best_trial import Selected, select
from discreet.queries.charging import Account
from discreet.queries.choices import Choice, Quantile
from discreet.queries.pca import Components, principal_components
from discreet.queries.sums import Count, Covariance, Histogram, Mean, Sum

if TYPE_CHECKING:
    from discreet.queries.transformers import PrivatePCA, PrivateScaler

_HOMES = dict.fromkeys(("PrivatePCA", "PrivateScaler"), ".transformers")
"""Classes that need scikit-learn."""

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

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
