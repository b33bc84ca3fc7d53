"""Training: the assembly of a plan, a model and data, the step, and the loop around it."""

from discreet.data.overlap import refuse_own_rows
from discreet.training.callbacks import Callback, Opening, Told
from discreet.training.callbacks_csv import CSVLogger
from discreet.training.callbacks_mlflow import MLflowLogger
from discreet.training.callbacks_tensorboard import TensorBoardLogger
from discreet.training.choose import ChosenModel, choose_model
from discreet.training.early import EarlyStopping
from discreet.training.engine_options import EngineOptions
from discreet.training.first import answered_first
from discreet.training.public_batches import PublicBatches
from discreet.training.session import Session
from discreet.training.step import Step
from discreet.training.trained import Evaluation, Mechanism, Trained
from discreet.training.training import Training
from discreet.training.tuning import Setup, Tuning

__all__ = [
    "CSVLogger",
    "Callback",
    "ChosenModel",
    "EarlyStopping",
    "EngineOptions",
    "Evaluation",
    "MLflowLogger",
    "Mechanism",
    "Opening",
    "PublicBatches",
    "Session",
    "Setup",
    "Step",
    "TensorBoardLogger",
    "Told",
    "Trained",
    "Training",
    "Tuning",
    "answered_first",
    "choose_model",
    "refuse_own_rows",
]
