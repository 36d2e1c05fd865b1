"""Shell scripts as text: lines, words, variables and sums. Nothing of a script is run."""

import ast
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_SUM = re.compile(r"\$\(\(([^()]*)\)\)")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


def joined_lines(text: str) -> Iterator[str]:
    """The lines of a script, continued ones joined."""
    yield from text.replace("\\\n", " ").splitlines()


def assign(line: Sequence[str], variables: MutableMapping[str, str]) -> None:
    """Set the variables that the words of a line assign."""
    for word in line[1:] if line[:1] in (["export"], ["local"]) else line[:1]:
        if assigned := _ASSIGNMENT.fullmatch(word):
            variables[assigned[1]] = replaced(assigned[2], variables)


def ends_command(word: str) -> bool:
    """Whether a word is behind a command: a separator or a redirection."""
    return word in {"|", ";", "&", "&&", "||"} or word.startswith((">", "2>", "&>"))


def words(line: str) -> list[str]:
    """The words of a line, without quotes and comments; none of one whose quotation goes on."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quotation over several lines, which no command that is read here has
        return []


def replaced(text: str, variables: Mapping[str, str]) -> str:
    """A text with the variables that the script sets; others stay, as ``$NAME``."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        default = f"${name}" if found[2] is None else found[2].strip("\"'")
        return variables.get(name, default)

    return _VARIABLE.sub(value, text)


def summed(line: str, variables: Mapping[str, str]) -> str:
    """A line whose sums of integers, as in ``$((1024 * 20))``, are replaced by their values."""

    def value(found: re.Match[str]) -> str:
        names = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", r"$\1", found[1])
        try:
            return str(_value(ast.parse(replaced(names, variables).strip(), mode="eval").body))
        except (SyntaxError, ValueError, ZeroDivisionError):
            return "$UNKNOWN"

    return _SUM.sub(value, line)


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and (apply := _OPERATORS.get(type(node.op))) is not None:
        return apply(_value(node.left), _value(node.right))
    raise ValueError("not a sum of integers")
