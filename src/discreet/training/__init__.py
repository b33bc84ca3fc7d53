"""Training: the assembly of a plan, a model and data, the step, and the loop around it."""

from discreet.training.session import Session, Step
from discreet.training.trained import Evaluation, Trained
from discreet.training.training import Training

__all__ = ["Evaluation", "Session", "Step", "Trained", "Training"]
