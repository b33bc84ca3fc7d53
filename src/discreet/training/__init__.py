"""Training: the assembly of a plan, a model and data, the step, and the loop around it."""

from discreet.training.choose import ChosenModel, choose_model
from discreet.training.early import EarlyStopping
from discreet.training.engine_options import EngineOptions
from discreet.training.first import answered_first
from discreet.training.session import Session, Step
from discreet.training.trained import Evaluation, Mechanism, Trained
from discreet.training.training import Training
from discreet.training.tuning import Setup, Tuning

__all__ = [
    "ChosenModel",
    "EarlyStopping",
    "EngineOptions",
    "Evaluation",
    "Mechanism",
    "Session",
    "Setup",
    "Step",
    "Trained",
    "Training",
    "Tuning",
    "answered_first",
    "choose_model",
]
