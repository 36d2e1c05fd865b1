"""Run files of verl that are shell scripts: ``python3 -m verl.trainer.main_ppo KEY=VALUE ...``.

The script is read, never run: continued lines are joined, variables and sums of integers that the
script sets are replaced, and the overrides of the trainer's command become settings over the
defaults of its configuration.
"""

import ast
import operator
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from services.contracts.errors import InvalidRequest
from services.contracts.yaml_text import parse_yaml
from temper.formats.verl_defaults import INHERITED

_TRAINER = re.compile(r"(?:\S+[./])?main_(?:ppo|dapo)(?:\.py)?")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_CONFIGURATION = re.compile(r"--config-name(?:=(.*))?")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_SUM = re.compile(r"\$\(\(([^()]*)\)\)")
_POSITIONAL = frozenset({"$@", "$*"})
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


def settings_of_script(text: str) -> dict[str, Any]:
    """The settings of the one command of verl's trainer in a script; raises InvalidRequest for a
    script without one, and for overrides that cannot be read."""
    variables: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = _words(_summed(line, variables))
        place = next((n for n, word in enumerate(words) if _TRAINER.fullmatch(word)), None)
        if place is not None:
            return _overrides(words[place + 1 :], variables)
        for word in words[1:] if words[:1] in (["export"], ["local"]) else words[:1]:
            if assigned := _ASSIGNMENT.fullmatch(word):
                variables[assigned[1]] = _replaced(assigned[2], variables)
    raise InvalidRequest("has no command of verl's trainer (main_ppo)")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quotation over several lines, which no command that is read here has
        return []


def _overrides(words: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"defaults": [INHERITED]}
    rest = iter(words)
    for word in rest:
        if word in _POSITIONAL:
            continue
        if word in {"|", ";", "&", "&&", "||"} or word.startswith((">", "2>", "&>")):
            break
        if named := _CONFIGURATION.fullmatch(word):
            _check_configuration(named[1] or next(rest, ""))
            continue
        found = _OVERRIDE.fullmatch(word)
        if found is None:
            raise InvalidRequest(f"{word[:80]!r} of its command is not KEY=VALUE")
        _set(settings, found[2], _replaced(found[3], variables))
    return settings


def _check_configuration(name: str) -> None:
    if not re.fullmatch(r"(ppo|dapo)(_megatron)?_trainer(\.ya?ml)?", name):
        raise InvalidRequest(
            f"--config-name {name[:80]!r} is another configuration than {INHERITED}: name the run "
            "file that it stands for"
        )


def _set(settings: dict[str, Any], key: str, text: str) -> None:
    *sections, name = key.split(".")
    section = settings
    for each in sections:
        section = section.setdefault(each, {})
        if not isinstance(section, dict):
            raise InvalidRequest(f"{key} is below a value", param=key)
    try:
        section[name] = parse_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{key} cannot be read: {error}", param=key) from None


def _replaced(text: str, variables: Mapping[str, str]) -> str:
    """A text with the variables that the script sets; others stay, as ``$NAME``."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        default = f"${name}" if found[2] is None else found[2].strip("\"'")
        return variables.get(name, default)

    return _VARIABLE.sub(value, text)


def _summed(line: str, variables: Mapping[str, str]) -> str:
    """A line whose sums of integers, as in ``$((1024 * 20))``, are replaced by their values."""

    def value(found: re.Match[str]) -> str:
        names = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", r"$\1", found[1])
        try:
            return str(_value(ast.parse(_replaced(names, variables).strip(), mode="eval").body))
        except (SyntaxError, ValueError, ZeroDivisionError):
            return "$UNKNOWN"

    return _SUM.sub(value, line)


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and (apply := _OPERATORS.get(type(node.op))) is not None:
        return apply(_value(node.left), _value(node.right))
    raise ValueError("not a sum of integers")
