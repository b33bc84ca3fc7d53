"""Remembers results of checks, and gives one again only if everything it was computed from is the same bit by bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module

from discreet.clipping.precision import product_precision
from discreet.clipping.separation.memory import Unknown, all_same, bits, listed

T = TypeVar("T")


class KnownResults(Generic[T]):
    """Remembers the last `most` results of a function, each with the contents of its arguments: models with the numbers
    of their parameters, losses, tensors, settings.

    Arguments are listed as `Memory` lists them; of the parameters of models also the numbers, but not how often torch
    wrote to them. With them go global settings of torch. Other globals are not looked at, nor what functions enclose,
    nor the code that runs: results are for one audit, whose code does not change.
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._known: list[tuple[list[Any], T]] = []

    def of(self, compute: Callable[[], T], *given: object) -> T:
        """Returns the remembered result for what `given` hold, or calls `compute()` and remembers what it returns.

        A result is remembered only if `compute` left the arguments as they were, and if all that they hold can be read.
        An error is never remembered.
        """
        before = _held(given)
        for held, result in self._known:
            if all_same(held, before):
                return result
        result = compute()
        if all_same(before, _held(given)):
            self._known = [(before, result), *self._known[: self._most - 1]]
        return result


class Remembered(Generic[T]):
    """Remembers the results of one function inside `in_`; outside, the function is always called."""

    def __init__(self, name: str) -> None:
        self._results: ContextVar[KnownResults[T] | None] = ContextVar(name, default=None)

    @contextmanager
    def in_(self, results: KnownResults[T]) -> Iterator[None]:
        """Inside, results are remembered in `results`."""
        token = self._results.set(results)
        try:
            yield
        finally:
            self._results.reset(token)

    def of(self, compute: Callable[[], T], *given: object) -> T:
        """As `KnownResults.of`."""
        results = self._results.get()
        return compute() if results is None else results.of(compute, *given)


def _held(given: tuple[object, ...]) -> list[Any]:
    """Everything that a result depends on: what the arguments hold, parameter values among it, and torch's settings.

    If something cannot be read, the list equals no other one.
    """
    own = {id(one): one for model in given if isinstance(model, nn.Module) for one in model.parameters()}
    try:
        found = listed(own, ((*given, _settings()),), True)
        for one in own.values():
            found += (one.dtype, bits(one.detach()))
        return [_digest(one) if isinstance(one, Tensor) else one for one in found]
    except Exception:  # an object, a kind of tensor or a setting may raise any error
        return [Unknown()]


def _digest(numbers: Tensor) -> tuple[object, ...]:
    content = numbers.cpu().contiguous().numpy().tobytes()
    return numbers.dtype, numbers.shape, numbers.device, hashlib.sha256(content).digest()


def _settings() -> tuple[object, ...]:
    """Global settings of torch that may change results."""
    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        *((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")),
        product_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.allow_tf32,
        torch.backends.mkldnn.enabled,
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.cuda.flash_sdp_enabled(),  # type: ignore[no-untyped-call]
        torch.backends.cuda.mem_efficient_sdp_enabled(),  # type: ignore[no-untyped-call]
        torch.backends.cuda.math_sdp_enabled(),  # type: ignore[no-untyped-call]
        *(dict(hooks) for hooks in _HOOKS),
    )


_HOOKS = (
    module._global_forward_hooks,
    module._global_forward_pre_hooks,
    module._global_backward_hooks,
    module._global_backward_pre_hooks,
)
"""Hooks of all modules."""
