"""Small mistakes that can be made in a source text: what `mutants.py` makes of a file.

An operator flipped, 0 or 1 moved by one, `min` for `max`, `and` for `or`, a `not` dropped, True for
False, a returned value negated; never in docstrings, comments, annotations, `TYPE_CHECKING`
blocks, protocols, assertions, messages, or the words of `__repr__` and `__str__`; nor in functions
that prefetch, which change the time alone.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

FLIPPED = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "==": ["!="], "!=": ["=="], "and": ["or"], "or": ["and"],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"],
    "+=": ["-="], "-=": ["+="], "*=": ["/="], "/=": ["*="],
}  # fmt: skip
SYMBOLS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.And: "and", ast.Or: "or", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
}  # fmt: skip
MOVED = {
    "0": ["1", "-1"], "1": ["0", "2"], "0.0": ["1.0", "-1.0"], "1.0": ["0.0", "2.0"],
    "True": ["False"], "False": ["True"],
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
NUMERIC_CALLS = {"float", "int", "abs", "min", "max", "sqrt", "fsum"}


class Mutation(NamedTuple):
    """Put `new` into the place of the text from `start` to `stop` of a line, counted from 1."""

    line: int
    start: int
    stop: int
    new: str

    def apply(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        old = lines[self.line - 1]
        lines[self.line - 1] = old[: self.start] + self.new + old[self.stop :]
        return "".join(lines)


def mutations(source: str) -> list[Mutation]:
    """All mutations of a source text; each is valid Python that differs in one line."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    found, lines = set(), source.splitlines()
    for node in _running(ast.parse(source)):
        found.update(_mutations_of(node, source, tokens))
    return sorted(mutation for mutation in found if lines[mutation.line - 1].isascii())


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """What is run and means something: no annotations, decorators, docstrings, messages, nor
    assertions for the type checker."""
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "bases"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_words(child):
                    yield child
                    yield from _running(child)


def _is_words(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__repr__", "__str__") or node.name.startswith("prefetch")
    if isinstance(node, ast.ClassDef):
        return any(_name(base) == "Protocol" for base in node.bases)
    if isinstance(node, ast.If):
        return _name(node.test) == "TYPE_CHECKING"
    return _is_text(node) or isinstance(node, ast.Raise | ast.Assert)


def _is_text(node: ast.AST) -> bool:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return constant or isinstance(node, ast.JoinedStr)


def _name(node: ast.AST) -> str:
    """x for x and for a.x."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _mutations_of(node: ast.AST, source: str, tokens: list) -> Iterator[Mutation]:
    for left, symbol, right in _operations(node):
        place = _find(symbol, left, right, tokens)
        yield from (Mutation(*place, new) for new in FLIPPED[symbol])
    if isinstance(node, ast.Constant):
        text = ast.get_source_segment(source, node) or ""
        for new in MOVED.get(text, []):
            yield Mutation(node.lineno, node.col_offset, node.col_offset + len(text), new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield Mutation(node.lineno, node.col_offset, node.col_offset + len("not"), "")
    elif isinstance(node, ast.Call) and _name(node.func) in SWAPPED:
        name, stop = _name(node.func), node.func.end_col_offset or 0
        yield Mutation(node.func.end_lineno or 0, stop - len(name), stop, SWAPPED[name])
    elif isinstance(node, ast.Return) and _is_negatable(node.value):
        value, text = node.value, ast.get_source_segment(source, node.value)
        sign = "not " if isinstance(value, ast.Compare | ast.BoolOp) else "-"
        yield Mutation(value.lineno, value.col_offset, value.end_col_offset, f"{sign}({text})")


def _operations(node: ast.AST) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    """The operators of a node that can be flipped, between their operands."""
    tail, operands, operators = "", [], [getattr(node, "op", None)]
    if isinstance(node, ast.Compare):
        operands, operators = [node.left, *node.comparators], node.ops
    elif isinstance(node, ast.BoolOp):
        operands, operators = node.values, operators * (len(node.values) - 1)
    elif isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.AugAssign):
        tail, operands = "=", [node.target, node.value]
    for (left, right), operator in zip(pairwise(operands), operators, strict=False):
        if type(operator) in SYMBOLS and not (_is_text(left) or _is_text(right)):
            yield left, SYMBOLS[type(operator)] + tail, right


def _find(symbol: str, left: ast.AST, right: ast.AST, tokens: list) -> tuple[int, int, int]:
    """Where an operator stands between its operands."""
    begin, end = (left.end_lineno, left.end_col_offset), (right.lineno, right.col_offset)
    line, start = next(t.start for t in tokens if t.string == symbol and begin <= t.start < end)
    return line, start, start + len(symbol)


def _is_negatable(value: ast.AST | None) -> bool:
    if value is None or value.lineno != value.end_lineno or any(map(_is_text, ast.walk(value))):
        return False
    numeric = isinstance(value, ast.Call) and _name(value.func) in NUMERIC_CALLS
    return numeric or isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp)
