"""Models of `transformers` on rows of this library: rows of tokens, the tasks with their losses, and the model around
them."""

from discreet.language.adapter_state import weights_digest
from discreet.language.tasks import IGNORED, TASKS, Task, task_named, task_of_model
from discreet.language.text_canaries import Canaries, exposures
from discreet.language.transformers_model import TransformersModel
from discreet.language.transformers_rows import Layout, TransformersRows

__all__ = [
    "IGNORED",
    "TASKS",
    "Canaries",
    "Layout",
    "Task",
    "TransformersModel",
    "TransformersRows",
    "exposures",
    "task_named",
    "task_of_model",
    "weights_digest",
]
