"""Using a published folder: build its model again, and predict."""

from discreet.prediction.frames import predict_frame
from discreet.prediction.load import Predictor, load
from discreet.prediction.of_recipe import spec_of, spec_of_table
from discreet.prediction.onnx_export import export_onnx
from discreet.prediction.table_rows import encode_table, predict_table

__all__ = [
    "Predictor",
    "encode_table",
    "export_onnx",
    "load",
    "predict_frame",
    "predict_table",
    "spec_of",
    "spec_of_table",
]
