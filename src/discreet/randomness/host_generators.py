"""The global generators of NumPy and Python, which nobody has seeded with secret bits."""

from __future__ import annotations

import random

import numpy as np


class HostGenerators:
    """Where they are. What draws from them for one row would shift the numbers of all rows after it; so each row finds
    them where the first did."""

    def __init__(self) -> None:
        self._numpy, self._python = np.random.get_state(), random.getstate()  # noqa: NPY002

    def rewind(self) -> bool:
        """Put them back; whether they were elsewhere."""
        now = np.random.get_state()  # noqa: NPY002
        same = all(np.array_equal(a, b) for a, b in zip(self._numpy, now, strict=True))
        if same and random.getstate() == self._python:
            return False
        np.random.set_state(self._numpy)  # noqa: NPY002
        random.setstate(self._python)
        return True
