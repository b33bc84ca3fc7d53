"""The global generators of NumPy and Python, which nobody has seeded with secret bits."""

from __future__ import annotations

import random

import numpy as np


class HostGenerators:
    """The states of both generators when this was made. A row that draws from them would shift the numbers of all later
    rows, so the generators are rewound for each row."""

    def __init__(self) -> None:
        self._numpy, self._python = np.random.get_state(), random.getstate()  # noqa: NPY002

    def rewind(self) -> bool:
        """Restore the states, and return whether they had changed."""
        (name, key, *rest), (name_now, key_now, *rest_now) = self._numpy, np.random.get_state()  # noqa: NPY002
        same = name == name_now and rest == rest_now and np.array_equal(key, key_now)
        if same and random.getstate() == self._python:
            return False
        np.random.set_state(self._numpy)  # noqa: NPY002
        random.setstate(self._python)
        return True
