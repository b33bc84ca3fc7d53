"""A Python file whose function makes a training: loaded as Python runs a script, with its errors in one line."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from discreet.core.disk import real
from discreet.core.errors import DiscreetError, InputError


def own_function(path: Path, name: str) -> Callable[..., object]:
    """The function `name` of the file, whose errors are `InputError`s of the file and the line.

    A file that has no such name is not run: it may train as it is loaded. Files beside it can be imported.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    missing = InputError(f"{path} has no function {name}() that returns a discreet.Training")
    with _in_one_line(path):
        if not _binds(ast.parse(path.read_bytes(), str(path)), name):
            raise missing
        found = _loaded(path).get(name)
    if not callable(found):
        raise missing

    @functools.wraps(found)
    def called(*given: object, **named: object) -> object:
        with _in_one_line(path):
            return found(*given, **named)

    return called


def _loaded(path: Path) -> dict[str, object]:
    """The names of the file once it was run."""
    folder = str(real(path.parent))
    if folder not in sys.path:
        sys.path.insert(0, folder)  # where a script looks first, also for what it imports later
    name = path.stem if path.stem not in sys.modules else f"{path.stem} of an audit"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return vars(module)


def _binds(tree: ast.Module, name: str) -> bool:
    """Whether the file defines, assigns or imports the name anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) in (name, "*"):
            return True
    return False


@contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """An error of the file's own code names its kind and line. Its words are left out, as they may show a row."""
    try:
        yield
    except (DiscreetError, OSError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        where = f"{path}{_line(path, error)}"
        raise InputError(f"{where}: there is no module {error.name}; install it, or check its name") from error
    except Exception as error:
        where = f"{path}{_line(path, error)}"
        raise InputError(f"{where}: {type(error).__name__}; run it in Python to see what it says") from error


def _line(path: Path, error: Exception) -> str:
    """The line of the file in which an error arose, as text for its message; empty if it arose elsewhere."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}" if error.filename == str(path) and error.lineno else ""
    called = traceback.extract_tb(error.__traceback__)
    of = [one.lineno for one in called if real(Path(one.filename)) == real(path)]
    return f", line {of[-1]}" if of else ""
