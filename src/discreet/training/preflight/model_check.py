"""Everything that is wrong with a model, in one error: by the types of its modules, and by trying it on random rows.
First of all, whether what was given is of the kinds that `Training` takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from discreet.clipping import (
    LOSS,
    Criterion,
    Findings,
    admit_model,
    admit_optimizer,
    evaluation_mode,
    foreign_tensors,
    mixing_backward,
    modes_kept,
    private_parameters,
    refuse_used_optimizer,
    training_mode,
    try_out,
)
from discreet.clipping.admission.admission import is_compiled, is_lazy, module_in_words
from discreet.clipping.admission.example_axes import is_whole
from discreet.clipping.separation import Remembered
from discreet.core.errors import CANNOT_TAKE, OTHER_ROWS, InputError, UnsupportedModel, first_line, kind_of
from discreet.data import PrivateData
from discreet.data.private.several_inputs import for_model
from discreet.methods import Averaging
from discreet.plan import AdaptivePlan, Plan
from discreet.plan.timeline import last_step
from discreet.training.augmented_views import transformed
from discreet.training.preflight.random_rows import random_rows

_ORDER = "the order is Training(plan, model, criterion, optimizer, data)"

_ROWS = 4
"""Number of random examples that are tested for influence on each other."""

TRIED_MODELS: Remembered[Findings] = Remembered("tried models")
"""Results of trying models on random rows, used again within one audit."""


def check_arguments(
    plan: object, model: object, criterion: object, optimizer: object, scheduler: object, averaging: object
) -> None:
    """`InputError` for an argument of another kind, for a class in the place of what it makes, for a scheduler of
    another optimizer, which would change nothing here, and for an average that begins when the run is over."""
    kinds = {"plan": (plan, Plan | AdaptivePlan), "model": (model, nn.Module), "optimizer": (optimizer, Optimizer)}
    for name, (given, kind) in kinds.items():
        _refuse_class(name, given)
        if name == "model" and isinstance(given, Mapping):
            raise InputError(
                "model cannot be a dict; give the module itself, which replace_batch_norm changes in place and "
                "load_state_dict fills"
            )
        if not isinstance(given, kind):
            several = (
                name == "optimizer" and isinstance(given, list | tuple) and any(isinstance(one, kind) for one in given)
            )
            how = "give discreet.methods.Several(FIRST, SECOND)" if several else _ORDER
            raise InputError(f"{name} cannot be {_described(given)}; {how}")
    _refuse_class("criterion", criterion)
    if not callable(criterion):
        raise InputError(f"criterion must be a loss, a function of (output, target), got {_described(criterion)}")
    _refuse_class("scheduler", scheduler)
    if scheduler is not None and not callable(getattr(scheduler, "step", None)):
        raise InputError(
            f"scheduler cannot be {_described(scheduler)}; give one of torch.optim.lr_scheduler, made of the optimizer"
        )
    scheduled = getattr(scheduler, "optimizer", optimizer)
    if scheduled is not optimizer:
        raise InputError(
            f"the scheduler is one of another optimizer ({type(scheduled).__name__}), so it would not change the "
            "learning rates of this run; make it of the optimizer that the training is given"
        )
    if isinstance(plan, Plan | AdaptivePlan) and isinstance(averaging, Averaging):
        _check_start(averaging, plan)


def admit(model: nn.Module, optimizer: torch.optim.Optimizer, data: PrivateData) -> None:
    """Refuse a model that cannot be trained privately on rows of this shape, and an optimizer that does not fit it.

    One `UnsupportedModel` names everything that is wrong. A model that cannot run on random rows is judged by the types
    of its modules alone.
    """
    findings = Findings()
    can_run = not (foreign_tensors(model) or any(is_lazy(one) or is_compiled(one) for one in model.modules()))
    if private_parameters(model) and can_run:
        try:
            findings = tried(model, random_rows(model, data, None).inputs)
        except OTHER_ROWS:
            findings = Findings()
        except CANNOT_TAKE as error:
            raise _failing(model, error) from error
    admit_model(model, findings)
    if data.transform is not None:
        _admit_transform(data, random_rows(model, data, None, raw=True).inputs)
    admit_optimizer(optimizer, model)
    refuse_used_optimizer(optimizer)


def admit_evaluated(model: nn.Module, inputs: Tensor) -> None:
    """Refuse a model whose examples influence each other in evaluation mode, or that keeps state there.

    Used for computations on private rows without training. `inputs`: random rows, as in `tried`. A model that cannot
    run on them passes unchecked.
    """
    try:
        with evaluation_mode(model):
            findings = try_out(model, inputs[:_ROWS], _others(inputs))
    except OTHER_ROWS:
        return
    except CANNOT_TAKE as error:
        raise _failing(model, error) from error
    try:
        admit_model(model, findings)
    except UnsupportedModel as error:
        raise UnsupportedModel(f"in evaluation mode, {error}") from None


def _check_start(averaging: Averaging, plan: Plan | AdaptivePlan) -> None:
    last = last_step(plan) if isinstance(plan, Plan) else plan.most_steps
    if averaging.start >= last:
        raise InputError(
            f"averaging: start is {averaging.start}, and the last step of the plan is charged step {last}, so nothing "
            f"would be averaged; take a start below {last}, or leave averaging out"
        )


def _failing(model: nn.Module, error: Exception) -> InputError:
    said = f"{type(error).__name__}: {first_line(error)}{for_model(model, error)}"
    return InputError(f"the model fails on rows shaped like the data: {said}")


class _Transformed(nn.Module):
    """A transform as a module, so that it can be checked like one."""

    def __init__(self, data: PrivateData) -> None:
        super().__init__()
        self._data = data

    def forward(self, inputs: Tensor) -> Tensor:
        return transformed(self._data, inputs)


def _admit_transform(data: PrivateData, inputs: Tensor) -> None:
    found = _tried(_Transformed(data), inputs[: 2 * _ROWS])
    if found.mixing:
        raise UnsupportedModel(
            "the transform of the augmented data lets examples influence each other; change each row by itself"
        )
    if found.remembering:
        raise UnsupportedModel(
            "the transform of the augmented data keeps state, or has a random generator of its own; draw from torch's "
            "default generator, which has a secret seed in training"
        )


def tried(model: nn.Module, inputs: Tensor) -> Findings:
    """How random rows influence each other in training mode. `inputs`: at least twice as many rows as are tried."""
    rows = inputs[: 2 * _ROWS].clone()
    return TRIED_MODELS.of(partial(_tried, model, rows), model, rows)


def _tried(model: nn.Module, rows: Tensor) -> Findings:
    with modes_kept(model):
        training_mode(model)
        return try_out(model, rows[:_ROWS], _others(rows))


def _others(inputs: Tensor) -> Tensor:
    """Other rows, with numbers of both signs."""
    others = inputs[_ROWS : 2 * _ROWS]
    if is_whole(inputs):
        return others
    return torch.randn(others.shape, generator=torch.Generator().manual_seed(1)).to(inputs)


def refuse_mixing_inside(model: nn.Module, inputs: Tensor) -> None:
    """For an engine that runs batches as batches: refuse a model whose modules mix examples."""
    found = tried(model, inputs)
    for name in (*found.mixing, *found.inside):
        raise UnsupportedModel(
            f"{module_in_words(model, name)} mixes the examples of a batch, or moves them to other places in it"
        )


def refuse_mixing_backward(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> None:
    """For an engine that runs batches as batches: refuse a model or loss whose backward pass mixes examples."""
    batch, rest = (inputs[:_ROWS], targets[:_ROWS]), (_others(inputs), targets[_ROWS : 2 * _ROWS])
    with modes_kept(model):
        training_mode(model)
        found = mixing_backward(model, criterion, batch, rest)
    if found == LOSS:
        raise UnsupportedModel("the loss of an example depends on other examples; make it depend on that one alone")
    if found is not None:
        raise UnsupportedModel(
            f"gradients of examples influence each other on the way back, near {module_in_words(model, found)}: a hook "
            "or a function with its own backward pass uses what the whole batch has; make it treat every example by "
            "itself"
        )


def _refuse_class(name: str, given: object) -> None:
    if isinstance(given, type):
        raise InputError(f"{name} is the class {given.__name__}; give one that is made: {given.__name__}(...)")


def _described(given: object) -> str:
    return repr(given)[:40] if isinstance(given, str) else kind_of(given)
