"""Finds and takes off what a model, a loss or a transform leaves on in torch, as a mode, which would see other rows."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import _pop_mode as pop_function_mode
from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode

_ENTERED: list[torch.inference_mode] = []
"""Contexts that nobody leaves: whoever left one would put back what was there when it was entered."""


class Surroundings:
    """The modes of torch that are on now, inference mode too, its hooks for saved tensors, and its default device,
    which is a mode."""

    def __init__(self) -> None:
        self._device, self._inference = _device(), torch.is_inference_mode_enabled()
        self._modes, self._functions, self._hooks = _modes(), _functions(), _hooks()
        self._gradients, self._threads = torch.is_grad_enabled(), torch._C._is_multithreading_enabled()

    def restore(self) -> bool:
        """Take off what has been left on since. Returns whether there was nothing to be taken off."""
        now = _device(), _modes(), _functions(), _hooks()
        inference = torch.is_inference_mode_enabled()
        if now == (self._device, self._modes, self._functions, self._hooks) and inference is self._inference:
            return True
        if _device() is not self._device:
            torch.set_default_device(None if self._device is None else self._device.device)
        while _modes() > self._modes:
            pop_dispatch_mode()
        while _functions() > self._functions:
            pop_function_mode()  # type: ignore[no-untyped-call]
        while _hooks() not in (self._hooks, None):
            torch._C._autograd._pop_saved_tensors_default_hooks()
        if inference is not self._inference:
            self._put_back_inference()
        return False

    def check(self) -> None:
        """`restore`, and `RuntimeError` if something was taken off."""
        if not self.restore():
            raise RuntimeError(
                "a mode of torch, hooks for saved tensors or a default device was left on; set them by `with` alone"
            )

    def _put_back_inference(self) -> None:
        """Torch leaves inference mode by entering the other one, which sets two other settings."""
        _ENTERED.append(torch.inference_mode(self._inference))
        _ENTERED[-1].__enter__()
        torch.set_grad_enabled(self._gradients)
        torch.autograd.set_multithreading_enabled(self._threads)


def _device() -> Any:
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _modes() -> int:
    return torch._C._len_torch_dispatch_stack()


def _functions() -> int:
    return int(torch._C._len_torch_function_stack())


def _hooks() -> Any:
    return torch._C._autograd._top_saved_tensors_default_hooks(True)
