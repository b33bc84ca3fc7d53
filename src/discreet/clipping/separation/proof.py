"""The proof that a program keeps examples apart, from the labels of its tensors."""

from __future__ import annotations

from collections.abc import Iterable

from discreet.clipping.separation.computed_again import ComputedAgain
from discreet.clipping.separation.labels import BATCH, MIXED, SHARED, UNIFORM, Rows
from discreet.clipping.separation.propagate import Labels, Mixes
from discreet.clipping.separation.recording.program import Held, Program, Template, described
from discreet.clipping.separation.recording.spans import reads_from_outside


def prove(template: Template) -> None:
    """`Mixes` unless a program, for a batch of any size, computes for each example what it would compute for it alone.

    Errors name the operator and the module in which it ran. What modules are given and return is looked at when it is,
    and again at the end, like what the model returns: a tensor that is written to gets another label.
    """
    program = template.one
    if program.fault is not None:
        raise Mixes(program.fault)
    labels = Labels(template)
    again = ComputedAgain(template, labels.of)
    if again.fault is not None:
        raise Mixes(again.fault)
    noted: dict[int, list[Held]] = {}
    for held in program.held:
        noted.setdefault(held.at, []).append(held)
    forward = True
    for number, op in enumerate(program.ops):
        if again.differs(number):
            raise Mixes(
                f"{described(program, number)} is given something else when a function under torch.utils.checkpoint is "
                "run again"
            )
        _check_held(labels, noted.get(number, ()))
        if forward and op.back:
            _check_returned(labels, program)
        forward = forward and not op.back
        labels.follow(number, op, again=number in again.pairs)
    _check_returned(labels, program)
    _check_held(labels, program.held)
    if (reason := reads_from_outside(program, labels.of)) is not None:
        raise Mixes(reason)


def _check_returned(labels: Labels, program: Program) -> None:
    """`Mixes` unless each tensor that the model returns has a row for each example: the loss of an example gets one."""
    for argument in program.returned:
        label = labels.of(argument.ref)
        if label == SHARED and argument.ref.kind != "empty":
            raise Mixes(
                f"the model returns a tensor of shape {tuple(argument.shape)} that is the same for every batch, of "
                "which an example would get the row at its place; leave it out, or return it once for each (.expand)"
            )
        if label not in (BATCH, UNIFORM, SHARED):
            raise Mixes(labels.why("what is returned"))


def _check_held(labels: Labels, held: Iterable[Held]) -> None:
    """`Mixes` unless tensors of modules with parameters have the labels now that they must have."""
    for one in held:
        label, name = labels.of(one.tensor.ref), repr(one.module or "model")
        if one.returned and label == UNIFORM:
            what = f"what module {name} returns may be alike for all examples"
            raise Mixes(f"{what}, so that nobody can tell whose an entry of it is")
        if one.axis < 0 and (isinstance(label, Rows) or label in (SHARED, UNIFORM)):
            continue
        if label not in (Rows(one.axis, 1, one.inner), UNIFORM):
            what = f"what module {name} works on, along axis {one.axis},"
            raise Mixes(labels.why(what) if label == MIXED else f"{what} is not one example after the other")
