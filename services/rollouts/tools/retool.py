"""Prepares a model's code for ReTool: the value of its last expression is printed."""

import ast
import re
import textwrap
import warnings

_FENCE = re.compile(r"```py(?:thon)?\b")
_SHOW = "\nif _ is not None: print(_)\n"
LONGEST_PARSED = 65_536
"""Characters. Longer code runs unchanged: parsing it would block every other rollout."""


def runnable(text: str) -> str:
    """The first fenced Python block of a text, or the whole text, extended to print the value of
    its last statement if that is an expression."""
    code = _unfenced(text)
    return code if len(code) > LONGEST_PARSED else _showing(code)


def _unfenced(text: str) -> str:
    fence = _FENCE.search(text)
    if fence is None:
        return text
    block = text[fence.end() :].partition("```")[0]
    return textwrap.dedent(block).strip()


def _showing(code: str) -> str:
    # The syntax tree counts Python's line ends and UTF-8 bytes.
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    last = _last_statement(code)
    if not isinstance(last, ast.Expr) or _prints(last.value):
        return code
    lines = code.encode().split(b"\n")
    start = _offset(lines, last.lineno, last.col_offset)
    end = _offset(lines, last.end_lineno or last.lineno, last.end_col_offset or 0)
    source = code.encode()
    assigned = source[:start] + b"_ = (" + source[start:end] + b")" + source[end:]
    return assigned.decode() + _SHOW


def _last_statement(code: str) -> ast.stmt | None:
    """None for invalid Python: the sandbox reports the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            statements = ast.parse(code).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return statements[-1] if statements else None


def _prints(value: ast.expr) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Name) and function.id == "print"


def _offset(lines: list[bytes], line: int, column: int) -> int:
    return sum(len(text) + 1 for text in lines[: line - 1]) + column
