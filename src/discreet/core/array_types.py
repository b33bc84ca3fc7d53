"""The array types that signatures use."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]
"""A real array; everything the library computes is float64."""

ComplexArray = npt.NDArray[np.complexfloating[Any, Any]]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
