"""Training: the assembly of a plan, a model and data, the step, and the loop around it."""

from discreet.data.private.overlap import refuse_own_rows
from discreet.training.batch import Batch
from discreet.training.callbacks.base import Callback, Opening, StopTraining, Told
from discreet.training.callbacks.csv_logger import CSVLogger
from discreet.training.callbacks.mlflow_logger import MLflowLogger
from discreet.training.callbacks.tensorboard_logger import TensorBoardLogger
from discreet.training.callbacks.wandb_logger import WandbLogger
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.public.early_stopping import EarlyStopping
from discreet.training.public.extra_rows import PublicBatches
from discreet.training.public.public_data import PublicData
from discreet.training.run.answered_queries import answered_first
from discreet.training.run.run_options import RunOptions
from discreet.training.run.trained import Evaluation, Mechanism, Trained
from discreet.training.session import Session
from discreet.training.training import Training
from discreet.training.tuning.choose import ChosenModel, choose_model
from discreet.training.tuning.tuning import Setup, Tuning

__all__ = [
    "Batch",
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
    "PublicData",
    "RunOptions",
    "Session",
    "Setup",
    "StopTraining",
    "TensorBoardLogger",
    "Told",
    "Trained",
    "Training",
    "Tuning",
    "WandbLogger",
    "answered_first",
    "choose_model",
    "refuse_own_rows",
]
