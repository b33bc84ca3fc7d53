"""Using a published folder: build its model again, and predict."""

from discreet.prediction.load import Predictor, load
from discreet.prediction.of_recipe import spec_of

__all__ = ["Predictor", "load", "spec_of"]
