"""Mutants of a source file for mutation.py: one thing changed in each."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
}
COMPARISON: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
NAMES = {"min": "max", "minimum": "maximum", "fmin": "fmax", "floor": "ceil", "argmin": "argmax", "any": "all"}
COMMUTATIVE = {"min", "max", "minimum", "maximum", "fmin", "fmax", "logaddexp"}
NAMES |= {other: name for name, other in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """`text` put in place of characters `begin` to `end` of a file."""

    file: str
    line: int
    begin: int
    end: int
    operator: str
    old: str
    text: str


def mutants(file: str) -> list[Mutant]:
    """All mutants of a file, but of docstrings, annotations and what an error says."""
    text = (ROOT / file).read_bytes()
    tree = ast.parse(text)
    starts, skipped = [0], _skipped(tree)
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in ast.walk(tree):
        if node in skipped or not isinstance(node, ast.expr | ast.stmt):
            continue
        for operator, place, new in _changes(node):
            begin = starts[place.lineno - 1] + place.col_offset
            end = starts[(place.end_lineno or place.lineno) - 1] + (place.end_col_offset or 0)
            old = text[begin:end].decode()
            new = new if isinstance(place, ast.stmt) else f"({new})"
            if new.strip("()") != old.strip("()"):
                found.append(Mutant(file, place.lineno, begin, end, operator, old, new))
    return found


def sample(file: str, share: float, seed: int, operators: list[str]) -> list[Mutant]:
    """A share of the mutants of a file by these operators, or by all; what is drawn does not depend on other files."""
    everything = [one for one in mutants(file) if not operators or one.operator in operators]
    return random.Random(f"{seed} {file}").sample(everything, math.ceil(share * len(everything)))


def _skipped(tree: ast.AST) -> set[ast.AST]:
    """Annotations, decorators, bases and errors that are raised: no formulas and no checks."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(args=arguments):
                named = [one.annotation for one in (*arguments.args, *arguments.kwonlyargs)]
                roots = [node.returns, *named, *node.decorator_list]
            case ast.ClassDef():
                roots = [*node.bases, *node.decorator_list]
            case ast.AnnAssign():
                roots = [node.annotation]
            case ast.Raise():
                roots = [node]
            case _:
                continue
        skipped.update(child for root in roots if root is not None for child in ast.walk(root))
    return skipped


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """(operator, what is replaced, new text) of the mutants of one node."""
    match node:
        case ast.Expr(ast.Call()):
            yield "call removed", node, "pass"
        case ast.If(test, [ast.Raise()]):
            yield "never refused", test, "False"
        case ast.Return(value) if value is not None:
            yield "return", node, "return None"
        case ast.expr():
            yield from ((operator, node, new) for operator, new in _other_expressions(node))


def _other_expressions(node: ast.expr) -> Iterator[tuple[str, str]]:
    match node:
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield "arithmetic", ast.unparse(ast.BinOp(left, ARITHMETIC[type(op)](), right))
        case ast.Compare(left, [op], [right]):
            for other in COMPARISON[type(op)]:
                yield "comparison", ast.unparse(ast.Compare(left, [other()], [right]))
        case ast.BoolOp(op, values):
            yield "boolean", ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.UnaryOp(ast.Not(), operand):
            yield "boolean", ast.unparse(operand)
        case ast.UnaryOp(ast.USub(), operand):
            yield "minus", ast.unparse(operand)
        case ast.Constant(value) if isinstance(value, bool):
            yield "constant", repr(not value)
        case ast.Constant(value) if isinstance(value, int):
            yield "constant", repr(value + 1)
        case ast.Constant(value) if isinstance(value, float):
            yield "constant", repr(value * 1.5 if value else 1.0)
        case ast.Call(ast.Name(name), _, _) if name in NAMES:
            yield "extreme", ast.unparse(ast.Call(ast.Name(NAMES[name]), node.args, node.keywords))
        case ast.Call(ast.Attribute(value, name), _, _) if name in NAMES:
            yield "extreme", ast.unparse(ast.Call(ast.Attribute(value, NAMES[name]), node.args, node.keywords))
        case ast.IfExp(test, body, orelse):
            yield "condition", ast.unparse(ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse))
    if isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(arg, ast.Starred) for arg in node.args):
        if ast.unparse(node.func).split(".")[-1] in COMMUTATIVE:
            return
        first, second, *rest = node.args
        yield "swapped", ast.unparse(ast.Call(node.func, [second, first, *rest], node.keywords))
