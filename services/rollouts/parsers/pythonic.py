"""The format of Llama 4 and others: a Python list of calls, as in [add(a=1, b=2), now()].

The text is parsed, never executed: only names, keyword arguments and literals are accepted.
"""

import ast
import math
import re
import warnings
from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.datasets.record import JsonValue
from services.rollouts.parsers.base import MAX_NAME, CallCollector, ParsedCall, ParsedTurn

_BEFORE = ("</think>", "<|python_start|>")
_BEGINNING = re.compile(r"\s*(\[\s*[^\W\d][\w.]*\s*\()")
_LEXEME = re.compile(
    r"""('{3}|"{3})(?:\\.|(?!\1).)*\1|'{3}|"{3}"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*|[][(){}"']""",
    re.DOTALL,
)
"""Brackets, and strings and comments, which may hold brackets. Quotes by themselves open a string
that does not end."""
_UNENDED = frozenset({'"', "'", '"' * 3, "'" * 3})
_NAMES = {"true": True, "false": False, "null": None}
_MAX_CHARACTERS = 200_000
_MAX_DEPTH = 50


class PythonicParser:
    """The turn begins with a list of calls, or several; an end token or other text may follow."""

    def parse(self, text: str, _tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        begin = max(text.rfind(mark) + len(mark) if mark in text else 0 for mark in _BEFORE)
        while (match := _BEGINNING.match(text, begin)) is not None:
            start, begin = match.start(1), _end(text, match.start(1))
            elements = _elements(text[start:begin])
            for element in [elements] if isinstance(elements, str) else elements:
                if findings.is_full(start):
                    return findings.turn()
                found = element if isinstance(element, str) else _call(element)
                findings.add(found, start, begin)
        return findings.turn()


def _end(text: str, start: int) -> int:
    """Where the list that begins at ``start`` ends; of one that is not closed, the last bracket
    that might close it."""
    depth = 0
    for lexeme in _LEXEME.finditer(text, start):
        if lexeme[0] in _UNENDED:
            break
        depth += (lexeme[0] in {"[", "(", "{"}) - (lexeme[0] in {"]", ")", "}"})
        if depth == 0:
            return lexeme.end()
    return max(text.rfind("]") + 1, start) if text.rfind("]") >= start else len(text)


class _Rejected(Exception):
    """Why a part of a call is rejected."""


def _elements(source: str) -> list[ast.expr] | str:
    """The elements of the list, or why the text is not one."""
    if len(source) > _MAX_CHARACTERS:
        return f"is longer than {_MAX_CHARACTERS:,} characters"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # do not warn about the model's code
            tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        return f"is not a Python list of calls: {error.msg}"
    except (ValueError, MemoryError, RecursionError) as error:
        return f"is not a Python list of calls: {error or type(error).__name__}"
    return tree.elts if isinstance(tree, ast.List) else "is not a Python list of calls"


def _call(node: ast.expr) -> ParsedCall | str:
    if not isinstance(node, ast.Call):
        return "an element of the list is not a call"
    try:
        name = _name(node.func)
        arguments: JsonObject = {}
        if node.args:
            raise _Rejected("has an argument without a name")
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in arguments:
                raise _Rejected("has arguments by ** or twice by one name")
            arguments[keyword.arg] = _literal(keyword.value, _MAX_DEPTH)
    except _Rejected as error:
        return str(error)
    return ParsedCall(name, arguments)


def _name(node: ast.expr) -> str:
    """A plain or dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise _Rejected("calls something other than a name")
    name = ".".join((node.id, *reversed(parts)))
    if len(name) > MAX_NAME:
        raise _Rejected(f"has a name of more than {MAX_NAME} characters")
    return name


def _literal(node: ast.expr, depth: int) -> JsonValue:
    """The JSON value of a literal; tuples become lists, and true, false and null are accepted."""
    if depth == 0:
        raise _Rejected(f"has an argument nested more than {_MAX_DEPTH} levels deep")
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            if not isinstance(value, bool):
                return -_constant(value)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item, depth - 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _key(key): _literal(value, depth - 1)
                for key, value in zip(keys, values, strict=True)
            }
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
    raise _Rejected("has an argument that is not a literal")


def _constant(value: object) -> JsonValue:
    if isinstance(value, float) and not math.isfinite(value):
        raise _Rejected("has a number that is too large")
    if isinstance(value, str) and not _is_text(value):
        raise _Rejected("has a string with half of a surrogate pair")
    if value is None or isinstance(value, str | int | float):
        return value
    raise _Rejected("has an argument that is not a literal of JSON")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_text(node.value):
        return node.value
    raise _Rejected("has a dictionary key that is not a string")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
