"""Results that are kept with all that they were computed from, and returned again where that is the same to the last
bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from discreet.clipping.separation.memory import Unknown, bits, listed, same

T = TypeVar("T")


class KnownResults(Generic[T]):
    """The latest results of a function, at most `most`, each with all that its arguments held: models with the numbers
    of their parameters, losses, tensors, settings.

    Arguments are listed as `Memory` lists them; of the parameters of models also the numbers, but not how often torch
    wrote to them. With them go the settings of torch that arithmetic depends on. Globals are not looked at, nor is the
    code that runs: results are to be kept no longer than one task takes.
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._known: list[tuple[list[Any], T]] = []

    def of(self, compute: Callable[[], T], *given: object) -> T:
        """`compute()`, a function of `given`, or what it returned before for arguments that held the same.

        A result is kept only if `compute` left the arguments as they were. An error is never kept.
        """
        before = _held(given)
        for held, result in self._known:
            if _alike(held, before):
                return result
        result = compute()
        if _alike(before, _held(given)):
            self._known = [(before, result), *self._known[: self._most - 1]]
        return result


class Remembered(Generic[T]):
    """A place where the results of one function are kept, inside `in_`; outside of it every result is computed."""

    def __init__(self, name: str) -> None:
        self._results: ContextVar[KnownResults[T] | None] = ContextVar(name, default=None)

    @contextmanager
    def in_(self, results: KnownResults[T], *, unless_kept: bool = False) -> Iterator[None]:
        """Inside, results are kept in `results`; with `unless_kept` where they are kept already."""
        token = self._results.set((self._results.get() if unless_kept else None) or results)
        try:
            yield
        finally:
            self._results.reset(token)

    def of(self, compute: Callable[[], T], *given: object) -> T:
        """As `KnownResults.of`."""
        results = self._results.get()
        return compute() if results is None else results.of(compute, *given)


def _held(given: tuple[object, ...]) -> list[Any]:
    own = {id(one): one for model in given if isinstance(model, nn.Module) for one in model.parameters()}
    found = listed(own, ((*given, _settings()),), True)
    try:
        for one in own.values():
            found += (one.dtype, bits(one.detach()))
    except Exception:  # a parameter of another layout
        return [Unknown()]
    return [_digest(one) if isinstance(one, Tensor) else one for one in found]


def _alike(ones: list[Any], others: list[Any]) -> bool:
    return len(ones) == len(others) and all(map(same, ones, others))


def _digest(numbers: Tensor) -> tuple[object, ...]:
    content = numbers.cpu().contiguous().numpy().tobytes()
    return numbers.dtype, numbers.shape, numbers.device, hashlib.sha256(content).digest()


def _settings() -> tuple[object, ...]:
    """The settings of torch that decide how it computes."""
    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.allow_tf32,
        torch.backends.mkldnn.enabled,
    )
