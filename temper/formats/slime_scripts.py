"""Run files of slime: shell scripts that pass arrays of arguments to ``python3 train.py``.

The script is read, never run: arrays and variables that it sets are replaced, and the arguments of
the trainer's command become settings under their own names, as ``--lr``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from services.contracts.errors import InvalidRequest
from services.parsing.yaml_text import parse_yaml
from temper.formats.shell_text import assign, ends_command, joined_lines, replaced, summed, words

MARK = "--rollout-batch-size"
"""The argument that each run of slime must have."""

_TRAINER = re.compile(r"(?:\S+/)?train(?:_async)?\.py")
_ARRAY = re.compile(r"([A-Za-z_]\w*)(\+?)=\((.*)", re.DOTALL)
_EXPANDED = re.compile(r"\$\{(\w+)\[[@*]\]\}")
_OF_THE_MODEL = "MODEL_ARGS"
"""The array with the shape of the model, which another script sets."""

Arrays = dict[str, list[str]]


def slime_arguments(text: str) -> dict[str, Any] | None:
    """The arguments of the trainer's command in a script; None for a script without one.

    An argument without a value is True, one with several a list. Raises InvalidRequest for a
    command whose arguments cannot be known without running the script.
    """
    arrays: Arrays = {}
    variables: dict[str, str] = {}
    open_array: str | None = None
    for line in joined_lines(text):
        found = words(summed(line, variables))
        if open_array is None and found and (begun := _ARRAY.fullmatch(found[0])):
            if begun[2]:
                raise InvalidRequest(f"{begun[1]} grows by +=, which may depend on what runs")
            open_array, found = begun[1], [begun[3], *found[1:]]
            arrays[open_array] = []
        if open_array is not None:
            open_array = _collect(arrays, open_array, found, variables)
            continue
        place = next((n for n, word in enumerate(found) if _TRAINER.fullmatch(word)), None)
        if place is not None:
            return _parsed(list(_expanded(found[place + 1 :], arrays, variables)))
        assign(found, variables)
    return None


def _collect(
    arrays: Arrays, name: str, line: Sequence[str], variables: Mapping[str, str]
) -> str | None:
    """Add the words of a line to an array; return its name unless it ends there."""
    for word in line:
        inner = word.removesuffix(")")
        if inner:
            arrays[name].append(replaced(inner, variables))
        if inner != word:
            return None
    return name


def _expanded(line: Sequence[str], arrays: Arrays, variables: Mapping[str, str]) -> Iterator[str]:
    for word in line:
        if ends_command(word):
            return
        array = _EXPANDED.fullmatch(word)
        if array is None:
            yield replaced(word, variables)
        elif array[1] in arrays:
            yield from arrays[array[1]]
        elif array[1] != _OF_THE_MODEL:
            raise InvalidRequest(f"the script does not set {array[1]}, whose arguments are passed")


def _parsed(line: Sequence[str]) -> dict[str, Any]:
    values: dict[str, list[str]] = {}
    name = None
    for word in line:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            values[name] = [value] if value else []
        elif name is None:
            raise InvalidRequest(f"{word[:80]!r} of its command belongs to no argument")
        else:
            values[name].append(word)
    return {name: _value(name, given) for name, given in values.items()}


def _value(name: str, given: Sequence[str]) -> Any:
    if not given:
        return True
    try:
        read = [parse_yaml(each) for each in given]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{name} cannot be read: {error}", param=name) from None
    return read[0] if len(read) == 1 else read
