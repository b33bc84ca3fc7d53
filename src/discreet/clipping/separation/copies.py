"""Copies of a model and its loss, through which private rows run: the trained and published model sees none."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from operator import is_

from torch import Tensor, nn

from discreet.clipping.losses import Criterion, holds_nothing
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.separation.memory import Memory, same_values
from discreet.core.errors import InputError, UnsupportedModel, first_line, kind_of

Warm = Callable[[nn.Module, Criterion], None]
"""Runs a model on random rows, so that it creates whatever it creates at its first call."""

_HOW = "the model and its loss are copied before the run, for all that is published, and"


def copied(model: nn.Module, criterion: Criterion, *, own: bool = False) -> tuple[nn.Module, Criterion]:
    """Deep copies of model and loss, whose parameters share the memory of the model's or, with `own`, have their own.
    `InputError` if they cannot be copied."""
    memo: dict[int, object] = {}
    try:
        for one in model.parameters():
            memo[id(one)] = made = nn.Parameter(one.detach().clone() if own else one.detach(), one.requires_grad)
            vars(made).update(copy.deepcopy(vars(one), memo))
        twin, loss = copy.deepcopy((model, criterion), memo)
    except Exception as error:  # a module may raise any error
        why = first_line(error)
        raise InputError(f"{_HOW} copy.deepcopy fails: {why}") from None
    if _modules(model, criterion) & _modules(twin, loss) or _names(model) != _names(twin):
        raise InputError(f"{_HOW} copy.deepcopy returns a part of the model itself, or another model")
    return twin, loss


class AsBefore:
    """Copies of the modules of `model` as they were before it met a row, to run with tensors that they are given.

    `before`: a model that has the same modules, and meets no row that `model` does."""

    def __init__(self, model: nn.Module, before: nn.Module) -> None:
        self._before, self._all = before, [*model.modules()]
        self._modules = dict(zip(map(id, self._all), before.modules(), strict=True))

    @classmethod
    def now(cls, model: nn.Module) -> AsBefore:
        """Copies of the modules as they are now. `UnsupportedModel` if they cannot be copied."""
        return cls(model, _without_numbers(model, model))

    def __call__(self, module: nn.Module) -> nn.Module:
        """A new copy, without numbers of parameters and buffers. `UnsupportedModel` if it cannot be copied, or was not
        there."""
        if id(module) not in self._modules:
            raise UnsupportedModel(f"{kind_of(module)} is made when the model runs, so it cannot run again")
        return _without_numbers(self._modules[id(module)], self._before)


def _without_numbers(module: nn.Module, model: nn.Module) -> nn.Module:
    """A deep copy of a part of a model, with its parameters and buffers on the device meta, and other tensors that
    gradients go through without their graph. `UnsupportedModel` if it cannot be copied."""
    memo: dict[int, object] = {}
    for one in named_tensors(model).together.values():
        empty = one.detach().to("meta")
        memo[id(one)] = nn.Parameter(empty, one.requires_grad) if isinstance(one, nn.Parameter) else empty
    for part in module.modules():
        for held in vars(part).values():
            if isinstance(held, Tensor) and not held.is_leaf:
                memo[id(held)] = held.detach().clone()
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # a module may raise any error
        why = first_line(error)
        raise UnsupportedModel(f"{kind_of(module)} cannot be copied (copy.deepcopy), to run again: {why}") from error


class OwnWeights:
    """The parameters of a copy through which units run one after the other. Every unit meets the same `values`, by
    name, whatever one before it wrote to them: by way of `.data` too, which torch does not count."""

    def __init__(self, twin: nn.Module, values: Mapping[str, Tensor]) -> None:
        self._places, named = _places(twin), dict(twin.named_parameters())
        self._pairs = [(named[name].data, value.detach()) for name, value in values.items()]
        self.renewed(twin)

    def renewed(self, twin: nn.Module) -> bool:
        """Give the parameters of the copy their values again. False, and nothing is written, if the copy has other
        parameters than it had, or has them in other memory."""
        if _places(twin) != self._places:
            return False
        for mine, value in self._pairs:
            mine.copy_(value)
        return True


class Twin:
    """A copy of a model and a loss, with its own parameters, or with `own=False` such that get their memory later.

    `followed`: a recorder follows all that the model uses, so of the model only buffers and modes are compared here,
    and the loss is copied alone, without the model."""

    def __init__(self, model: nn.Module, criterion: Criterion, *, followed: bool = False, own: bool = True) -> None:
        self.model, joint = copied(model, criterion, own=own)
        alone = holds_nothing(criterion)
        self.criterion = criterion if alone else copy.deepcopy(criterion) if followed else joint
        self._followed = followed
        self._modes, self._memory = self._modes_now(), Memory(*self._held())
        self._writes = [one._version for one in self.model.parameters()]  # a model can read it; `follow` does not count

    def _held(self) -> tuple[object, ...]:
        if not self._followed:
            return self.model, self.criterion
        buffers = named_tensors(self.model).buffers
        return (None, buffers, self.criterion) if buffers else (None, self.criterion)

    def _modes_now(self) -> tuple[list[str], list[object]]:
        """All else that a followed model may not change: names of parameters, and objects compared by identity."""
        if not self._followed:
            return [], []
        names: list[str] = []
        found: list[object] = [one.training for one in self.model.modules()]
        for name, one in named_tensors(self.model).parameters.items():
            names.append(name)
            found += (one, one.requires_grad)
        return names, found

    def beside(self, model: nn.Module) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """The parameters of the twin, each with that of `model` of the same name."""
        theirs = dict(model.named_parameters())
        return [(mine, theirs[name]) for name, mine in self.model.named_parameters()]

    def follow(self, pairs: list[tuple[nn.Parameter, nn.Parameter]]) -> None:
        """Take over the values of the other parameters of `pairs` (see `beside`), and their device."""
        for mine, other in pairs:
            if mine.shape == other.shape and mine.dtype == other.dtype and mine.device == other.device:
                mine.data.copy_(other.data)
            else:
                mine.data = other.data.clone()
        for buffer in named_tensors(self.model).buffers.values():
            buffer.data = buffer.data.to(pairs[0][1].device)

    def is_as_it_was(self, model: nn.Module) -> bool:
        """Whether the twin holds what it held, and has the parameters of `model` bit by bit. (If `followed`, the
        recorder sees writes to parameters.)"""
        if self._followed:
            (names, now), (known, before) = self._modes_now(), self._modes
            same = names == known and len(now) == len(before) and all(map(is_, now, before))
            return same and self._memory.is_kept(*self._held())
        theirs, mine = dict(model.named_parameters()), dict(self.model.named_parameters())
        if mine.keys() != theirs.keys() or not all(same_values(one, theirs[name]) for name, one in mine.items()):
            return False
        if [one._version for one in mine.values()] != self._writes:
            return False
        return self._memory.is_kept(*self._held())


class Twins:
    """Twins of the trained model and its loss. If a row leaves something in a twin, the next row gets another twin. So
    every unit meets the same model, and the trained model sees no private row.

    `warm`: runs a model on random rows, so that it creates whatever it creates at its first call. `followed`: as in
    `Twin`.
    """

    def __init__(self, warm: Warm, *, followed: bool = False) -> None:
        self._warm, self._followed = warm, followed
        self._template: Twin | None = None
        self._source: Memory | None = None
        self._given: Criterion | None = None
        self._twin: Twin | None = None
        self._before: AsBefore | None = None
        self._pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
        self._in_use = False

    def of(self, model: nn.Module, criterion: Criterion) -> Twin:
        """A twin of model and loss as they are now, which no private row has changed. (If an error ended the use of the
        last one before a `look`, it is not used again.)"""
        if self._in_use:
            self.drop()
        if self._template is None or self._given is not criterion or not self._unchanged(model, criterion):
            self._source, self._given, self._twin = Memory(model, criterion), criterion, None
            self._template = Twin(model, criterion, followed=self._followed)
            self._warm(self._template.model, self._template.criterion)
        if self._twin is None:
            self._template.follow(self._template.beside(model))
            self._twin = self._made(model, criterion, self._template)
            self._pairs = self._twin.beside(model)
        self._twin.follow(self._pairs)  # both models hold the parameters that they held, or else both were made anew
        self._in_use = True
        return self._twin

    @property
    def source(self) -> object:
        """An object that is another one whenever model or loss have changed but for the values of parameters."""
        return self._source

    def as_before(self) -> AsBefore:
        """Copies of the modules of the last twin as they were before it met a private row."""
        assert self._before is not None
        return self._before

    def again(self) -> Twin:
        """The last twin once more, which is as it was."""
        assert self._twin is not None
        self._in_use = True
        return self._twin

    def _made(self, model: nn.Module, criterion: Criterion, warm: Twin) -> Twin:
        """A copy of the warm twin; or of the model, if the warm twin holds tensors of autograd (not copyable)."""
        try:
            made, source = Twin(warm.model, warm.criterion, followed=self._followed), warm.model
        except InputError:
            made, source = Twin(model, criterion, followed=self._followed), model
        self._before = AsBefore(made.model, source)
        return made

    def look(self, model: nn.Module) -> bool:
        """Whether the last twin is unchanged; if not, it is dropped."""
        self._in_use = False
        try:
            kept = self._twin is not None and self._twin.is_as_it_was(model)
        except Exception:  # a row may have taken apart what is looked at
            kept = False
        if not kept:
            self.drop()
        return kept

    def drop(self) -> None:
        """Use another twin from now on."""
        self._twin, self._in_use = None, False

    def _unchanged(self, model: nn.Module, criterion: Criterion) -> bool:
        return self._source is not None and self._source.is_kept(model, criterion)


def _modules(*parts: object) -> set[nn.Module]:
    return {module for part in parts if isinstance(part, nn.Module) for module in part.modules()}


def _places(model: nn.Module) -> list[tuple[object, ...]]:
    """The name and identity of every parameter, its place in memory, and how the numbers there are read."""
    return [
        (name, id(one), one.data_ptr(), one.shape, one.stride(), one.dtype, one.is_conj(), one.is_neg())
        for name, one in model.named_parameters()
    ]


def _names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters()]
