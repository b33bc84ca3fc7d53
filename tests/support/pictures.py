"""The scripts in docs/figures, as modules."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "docs" / "figures"


@cache
def pictures(name: str) -> ModuleType:
    """The module of docs/figures/`name`.py; importing it draws nothing."""
    spec = importlib.util.spec_from_file_location(f"figures_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module
