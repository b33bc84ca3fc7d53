"""What a model is trained for: which scores it returns, what a row's target is, and the loss of a row.

Losses are those of torch.nn. The loss of a row of tokens is the mean or the sum over the row's own labelled tokens, so
it depends on nothing but the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from discreet.core.errors import InputError

IGNORED = -100
"""The label of a token that is not predicted: padding, a prompt. As in torch and `transformers`."""

Targets = Literal["tokens", "class", "numbers", "flags"]
"""A label for each token; one class; numbers; several classes at once, each 0 or 1."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task, by the name that commands use.

    `auto`: the class of `transformers` that makes its models. `peft`: the task type of `peft`, if it has one. `target`:
    what the target of a row is. `columns`: the inputs of a model that a row has. `shifted`: the labels of a row are its
    own tokens, each predicted from those before it.
    """

    name: str
    auto: str
    peft: str | None
    target: Targets
    columns: tuple[str, ...] = ("input_ids", "attention_mask")
    shifted: bool = False

    def loss(self, *, reduction: Literal["mean", "sum"] = "mean", label_smoothing: float = 0.0) -> nn.Module:
        """The loss of a row, as `Training` takes it.

        `reduction`: over the labelled tokens, numbers or flags of the row; public. With "mean" short and long rows
        weigh alike before they are clipped, and a row without a label has loss 0.
        """
        if reduction not in ("mean", "sum"):
            raise InputError(f"reduction must be 'mean' or 'sum', over the tokens of a row, got {reduction!r}")
        if label_smoothing and self.target in ("numbers", "flags"):
            raise InputError(f"label_smoothing is for classes; the task {self.name} has none")
        match self.target:
            case "numbers":
                return nn.MSELoss(reduction=reduction)
            case "flags":
                return nn.BCEWithLogitsLoss(reduction=reduction)
        return nn.CrossEntropyLoss(ignore_index=IGNORED, reduction=reduction, label_smoothing=label_smoothing)

    def scores(self, logits: Tensor) -> Tensor:
        """The scores that `loss` takes, from those of `transformers`: (n, length, classes) become (n, classes,
        length)."""
        return logits.transpose(1, 2) if self.target == "tokens" else logits


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("causal-lm", "AutoModelForCausalLM", "CAUSAL_LM", "tokens", shifted=True),
        Task("masked-lm", "AutoModelForMaskedLM", None, "tokens"),
        Task(
            "seq2seq",
            "AutoModelForSeq2SeqLM",
            "SEQ_2_SEQ_LM",
            "tokens",
            ("input_ids", "attention_mask", "decoder_input_ids"),
        ),
        Task("token-classification", "AutoModelForTokenClassification", "TOKEN_CLS", "tokens"),
        Task("classification", "AutoModelForSequenceClassification", "SEQ_CLS", "class"),
        Task("regression", "AutoModelForSequenceClassification", "SEQ_CLS", "numbers"),
        Task("multi-label", "AutoModelForSequenceClassification", "SEQ_CLS", "flags"),
        Task("image-classification", "AutoModelForImageClassification", None, "class", ("pixel_values",)),
    )
}
"""All tasks, by name."""

_CLASSES = (
    ("MaskedLM", "masked-lm"),
    ("TokenClassification", "token-classification"),
    ("SequenceClassification", "classification"),
    ("ImageClassification", "image-classification"),
    ("ConditionalGeneration", "seq2seq"),
    ("CausalLM", "causal-lm"),
    ("LMHeadModel", "causal-lm"),
)
"""Ends of the names of classes of `transformers`, and their tasks."""

_PROBLEMS = {"regression": "regression", "multi_label_classification": "multi-label"}
"""The tasks of `config.problem_type`."""


def task_named(name: str | Task) -> Task:
    """The task; `InputError` with all names if there is no such task."""
    if isinstance(name, Task):
        return name
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}; choose one of {', '.join(TASKS)}")
    return TASKS[name]


def task_of_model(model: nn.Module) -> Task:
    """The task that a model of `transformers` was made for, by its class and `config.problem_type`. Adapters of `peft`
    have the task of their base."""
    base = base_of(model)
    kind = type(base).__name__
    found = next((task for end, task in _CLASSES if kind.endswith(end)), None)
    if found is None:
        raise InputError(f"a {kind} does not say what it is for; name the task, one of {', '.join(TASKS)}")
    if found == "classification":
        found = _PROBLEMS.get(str(getattr(base.config, "problem_type", None)), found)
    return TASKS[found]


def base_of(model: nn.Module) -> Any:
    """The model of `transformers` inside adapters of `peft`, or the model itself."""
    base: Any = getattr(model, "get_base_model", None)
    return model if base is None else base()
