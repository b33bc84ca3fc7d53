"""In which precision engines compute: products of their own in full, the model's in what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_precision(device: str) -> Iterator[None]:
    """No reduced precision in matrix products and convolutions: neither autocast nor TF32."""
    before = torch.get_float32_matmul_precision()
    if device == "cpu" and before == "highest" and not torch.is_autocast_enabled("cpu"):
        yield  # nothing to change, which is found out faster than it is changed
        return
    with torch.autocast(device, enabled=False), torch.backends.cudnn.flags(allow_tf32=False):
        if before != "highest":
            torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            if before != "highest":
                torch.set_float32_matmul_precision(before)
