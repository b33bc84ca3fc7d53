"""Using a published folder: build its model again, and predict."""

from discreet.prediction.load import Predictor, load
from discreet.prediction.of_recipe import spec_of, spec_of_table
from discreet.prediction.tables import predict_table

__all__ = ["Predictor", "load", "predict_table", "spec_of", "spec_of_table"]
