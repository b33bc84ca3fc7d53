"""The interface of rules: per-example squared norms, and the weighted sum, from one call of a module.

The gradient of example i for a parameter of the module is a function of the module's input for that example
(`activation`) and of the gradient of that example's loss with respect to the module's output (`gradient`). A rule gets
both for the whole batch and answers two questions, each of them once: how long is each example's gradient, and what
is the sum of the gradients times given weights. Both answers use the same two tensors, so the measured norms bound
the sum, whatever the model did before and after.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from discreet.clipping.rules.numbers import added, blank, norms_of, squared_norms, weighted_sum, wide
from discreet.clipping.rules.products.stack import Stack
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel, kind_of

BUDGET = 2**28
"""Bytes that temporary tensors of one rule may take. If one example needs more, examples are taken one at a time."""


def room_for(size: int) -> int:
    """The number of things of `size` bytes for which `BUDGET` has room: one at least."""
    return max(1, BUDGET // max(1, size))


class Rule(ABC):
    """One call of a module. `activation` and `gradient` have the examples along axis 0 and, unless `kept` is another,
    a real type of at least 32 bits (or whole numbers, for token indices); `names` says which of the parameters are
    trained.
    """

    names: ClassVar[tuple[str, ...]] = ("weight", "bias")
    """The parameters that the rule knows; empty if it knows all. It does not handle a module with other parameters."""

    replays: ClassVar[bool] = False
    """Whether the rule runs the module again with the same random numbers, which it draws from `generator`."""

    takes_positions: ClassVar[bool] = False
    """Whether the rule takes positions: any axes between the first, of the examples, and those of the features."""

    generator: Tensor | None = None
    """The state of torch's generator when the module was called, for rules that replay."""

    _held: Sequence[Tensor] = ()
    _versions: Sequence[int] = ()

    def __init__(
        self,
        module: nn.Module,
        trained: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        gradients: tuple[Tensor | None, ...],
    ) -> None:
        self.module, self.trained = module, trained
        gradient = gradients[0]
        assert gradient is not None
        self.activation, self.gradient = self.kept(args[0] if args else kwargs["input"], gradient)

    @staticmethod
    def kept(activation: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The parts that the rule keeps of the module's input and of the gradient of its output: detached, in a type
        that the rule can compute with."""
        return wide(activation), wide(gradient)

    @classmethod
    def covers(cls, module: nn.Module) -> bool:
        """Whether the rule covers this configuration of the module."""
        return True

    @classmethod
    def axis(cls, module: nn.Module) -> int:
        """The axis of the examples in the inputs and outputs of the module."""
        return 0

    @property
    def examples(self) -> int:
        """The number of examples."""
        return self.activation.shape[0]

    @abstractmethod
    def squares(self, name: str) -> Tensor:
        """The squared L2 norm of each example's gradient for parameter `name`: float64, shape (batch,)."""

    def form_rows(self, name: str, most: int | None = None) -> Tensor | None:
        """Form the gradients of all examples, shape (batch, ...), if the rule keeps them for `total` and they take at
        most `most` bytes; else None, and nothing is formed. Their norms are those of `squares`."""
        return None

    def lie_in(self, stack: Stack, place: int) -> None:
        """Use what lies in a stack in the place of what `form_rows` returned."""
        raise NotImplementedError

    def forms_again(self, name: str) -> bool:
        """Whether `total` computes the gradients of examples a second time, after their norms were measured. A module
        that runs again on another number of examples may round otherwise, and take another branch, so the sum is then
        formed in the blocks that were measured."""
        return False

    def scaled_squares(self, name: str, scale: Tensor) -> Tensor | None:
        """The squared norms of gradients divided by `scale`, shaped like the parameter, if the rule can compute them
        without `rows` and the terms of `total` cannot cancel within one example; else None."""
        return None

    def boxed_total(self, name: str, scale: Tensor) -> Tensor | None:
        """The sum over examples of gradients divided by `scale`, each number clipped to [-1, 1]: float64, shaped like
        the parameter; None if the rule cannot compute it without `rows`."""
        return None

    @abstractmethod
    def total(self, name: str, weights: Tensor) -> Tensor:
        """The sum over examples of weight x gradient for parameter `name`. `weights`: float64, shape (batch,)."""

    @abstractmethod
    def rows(self, name: str, start: int, stop: int) -> Tensor:
        """The gradients of examples start .. stop - 1 for `name`, shape (stop - start, *parameter shape).

        For parameters that several calls share: the gradients of the calls are added up before they are measured.
        """

    def lengths(self, name: str) -> Tensor:
        """The sum of the norms of the terms that `total` adds up for an example's gradient: float64, shape (batch,).

        Larger than the norm of the gradient if `total` never forms it and its terms cancel (see `with_rounding`).
        """
        return self.squares(name).sqrt()

    def terms(self, name: str) -> int | Tensor:
        """The number of terms that `total` adds up for an example's gradient without forming it; of units, whose rows
        are several, that of each. If it is above one, `total` takes `examples_together` of that many at a time."""
        return 1

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        """An upper bound on `lengths` of terms divided by `scale`, which is shaped like the parameter."""
        return self.lengths(name) / scale.min()

    def drop(self, unusable: Tensor) -> None:
        """Zero what was captured of the examples marked in `unusable`, shape (batch,): a weight of zero is not enough,
        because zero times infinity is not zero."""
        self.activation = blank(self.activation, unusable)
        self.gradient = blank(self.gradient, unusable)

    def settle(self, *, rows: bool = False) -> None:
        """Free the tensors that only the norms needed, and note the versions of the others, for `check`. `rows`: the
        method `rows` will be called again, so nothing is freed."""
        if not rows:
            self.forget()
        held = _tensors(self)
        self._held, self._versions = held, [tensor._version for tensor in held]

    def forget(self) -> None:
        """Free the tensors that `total` will not read. Only `total` and `drop` are called afterwards."""
        return

    def check(self) -> None:
        """`UnsupportedModel` if a tensor was written to since it was measured: the backward pass went on in between,
        and may contain operations in place."""
        if any(tensor._version != version for tensor, version in zip(self._held, self._versions, strict=True)):
            raise UnsupportedModel(
                f"what {kind_of(self.module)} was given, or a gradient, was overwritten in the backward pass; "
                "remove the operation in place (of a torch.autograd.Function, or of a hook)"
            )

    def of_units(self, units: Units) -> Rule | None:
        """A rule with units instead of examples, if the family has one that forms no gradients of rows; else None."""
        return None

    def join(self, others: list[Rule]) -> Rule | None:
        """One rule for this and further calls of modules with the same parameters, if the family has one; else None."""
        return None


class Formed(Rule):
    """A rule that forms per-example gradients, in blocks of bounded memory; for small parameters."""

    formed: tuple[str, ...]
    """The parameters whose gradients are formed: all trained ones, unless the rule has a better way for some."""

    _kept: dict[str, Tensor] | None = None
    _squares: dict[str, Tensor] | None = None
    _unusable: Tensor | None = None
    _forgotten = False

    def __init__(self, module: nn.Module, trained: tuple[str, ...], *captured: Any) -> None:
        super().__init__(module, trained, *captured)
        self.formed = trained

    @abstractmethod
    def gradients(self, start: int, stop: int) -> dict[str, Tensor]:
        """The gradients of examples start .. stop - 1, by name, each of shape (stop - start, *parameter shape)."""

    def squares(self, name: str) -> Tensor:
        if self._squares is None:
            blocks, parts = [], []
            for start, stop in self._blocks():
                rows = self._formed(start, stop)
                parts.append({own: squared_norms(rows[own]) for own in self.formed})
                size = sum(row.nbytes for row in rows.values()) // (stop - start) * self.examples
                blocks += [rows] if size <= BUDGET else []
            self._squares = _joined(parts)
            self._kept = _joined(blocks) if blocks else None
        return self._squares[name]

    def total(self, name: str, weights: Tensor) -> Tensor:
        if self._kept is not None:
            return weighted_sum(weights, self._kept[name])
        return added(weighted_sum(weights[i:j], self._formed(i, j)[name]) for i, j in self._blocks())

    def forms_again(self, name: str) -> bool:
        return self._kept is None and name in self.formed

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        kept = self._formed(start, stop) if self._kept is None else self._kept
        return kept[name] if self._kept is None else kept[name][start:stop]

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        rows = (self.rows(name, i, j).reshape(j - i, -1) for i, j in self._blocks())
        return torch.cat([norms_of(part.double() / scale.reshape(-1), 1) for part in rows])

    def forget(self) -> None:
        if self._kept is not None and len(self._kept) == len(self.trained):
            self.forget_captured()
            self._forgotten = True

    def forget_captured(self) -> None:
        """Free the tensors from which gradients are formed."""
        self.activation = self.gradient = NOTHING

    def drop(self, unusable: Tensor) -> None:
        if not self._forgotten:
            self.drop_captured(unusable)
        self.drop_rows(unusable)

    def drop_rows(self, unusable: Tensor) -> None:
        """Zero the gradients of these examples, also those formed later: captured zeros may still give a gradient that
        is not finite."""
        self._unusable = unusable
        if self._kept is not None:
            self._kept = {name: blank(rows, unusable) for name, rows in self._kept.items()}

    def drop_captured(self, unusable: Tensor) -> None:
        """`drop`, for the tensors from which gradients are formed."""
        Rule.drop(self, unusable)

    def bytes_per_example(self) -> int:
        """The bytes of one example's gradients and of the tensors from which they are formed."""
        return self._numbers() * self.gradient.element_size()

    def _numbers(self) -> int:
        """The number of elements of one example's gradients."""
        return sum(self.module.get_parameter(name).numel() for name in self.formed)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        size = room_for(self.bytes_per_example())
        for start in range(0, self.examples, size):
            yield start, min(start + size, self.examples)

    def _formed(self, start: int, stop: int) -> dict[str, Tensor]:
        rows = self.gradients(start, stop)
        if self._unusable is None:
            return rows
        return {name: blank(row, self._unusable[start:stop]) for name, row in rows.items()}


def _joined(blocks: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    first, *others = blocks
    return {name: torch.cat([block[name] for block in blocks]) for name in first} if others else first


NOTHING = torch.empty(0)
"""Stands in the place of freed tensors."""


def _tensors(rule: Rule) -> list[Tensor]:
    """The tensors of a rule and of the rules that it holds."""
    found: list[Tensor] = []
    todo: list[Any] = list(vars(rule).values())
    while todo:
        one = todo.pop()
        kind = type(one)
        if kind is Tensor:
            found.append(one)
        elif kind is dict:
            todo += one.values()
        elif kind is list or kind is tuple:
            todo += one
        elif isinstance(one, Tensor):
            found.append(one)
        elif Rule in kind.__mro__:  # `isinstance` asks the abstract type, which takes longer
            todo += vars(one).values()
    return found


R = TypeVar("R", bound=type[Rule])

RULES: dict[type[nn.Module], type[Rule]] = {}
"""The rules by module type. Subclasses that keep the `forward` of the type are covered too."""


def rule(*kinds: type[nn.Module]) -> Callable[[R], R]:
    """Register a rule for these module types; used as a class decorator."""

    def register(cls: R) -> R:
        for kind in kinds:
            RULES[kind] = cls
        return cls

    return register


def refuse(module: nn.Module, why: str) -> UnsupportedModel:
    """The error for a configuration that cannot be clipped."""
    return UnsupportedModel(f"{kind_of(module)} {why}")
