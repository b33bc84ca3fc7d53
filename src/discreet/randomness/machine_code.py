"""Functions on arrays as machine code, compiled by numba and kept in a cache on disk.

The cache is numba's: beside the source file, or in the user's cache folder where that cannot be written to. Its entries
are for one source file, version of numba and processor. Without a folder, or with a broken file in it, functions are
compiled in every process, which takes about two seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def machine_code(function: Callable[..., Any], *signatures: str, exact: bool = True) -> Callable[..., Any]:
    """`function` as machine code for these `signatures`, which runs without Python's lock.

    With `exact` False, a division by zero is inf or NaN, as in NumPy. The function must read constants of its own file
    only, because a change of another file does not renew the cache; and it is compiled in one way only, because the
    cache does not tell two apart.
    """
    import numba  # here, because most commands compute nothing

    build: Any = numba.njit
    options = {"nogil": True, "error_model": "python" if exact else "numpy"}
    try:
        found: Callable[..., Any] = build(list(signatures), cache=True, **options)(function)
    except Exception:  # a broken cache may raise anything; a fault of the function is raised again below
        found = build(list(signatures), **options)(function)
    return found
