"""Private training in the manner of scikit-learn. This room imports scikit-learn."""

from discreet.estimators.classifier import PrivateClassifier
from discreet.estimators.conventions import NOT_KEPT
from discreet.estimators.regressor import PrivateRegressor

__all__ = ["NOT_KEPT", "PrivateClassifier", "PrivateRegressor"]
