"""Files and functions stay short enough to read (EXAMPLES, rule 10)."""

import ast
from pathlib import Path

import discreet

ROOT = Path(discreet.__file__).parent
FILE_LINES, FUNCTION_LINES = 320, 60
WHOLE = {"verification/standalone/verify.py": 800}
"""Files that are handed out alone."""


def test_files() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > WHOLE.get(name, FILE_LINES)} == {}


def test_functions() -> None:
    too_long = {
        f"{path.relative_to(ROOT)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
        if node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    }
    assert too_long == {}
