"""Values that are set by path in the body of a request, as in ``--set budget.loops=5``."""

import json
import re
from collections.abc import Sequence
from typing import Any

from temper.submission.submission import SubmissionError

Part = str | int
"""A step of a path: the name of a field, or the index of a list's element."""

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[^.="]+')
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class InvalidOption(SubmissionError):
    """An option of the command is invalid; nothing was submitted."""

    code = "invalid_option"


def parse_assignment(text: str) -> tuple[tuple[Part, ...], str]:
    """Return the path and the value of ``PATH=VALUE``; raises `InvalidOption`.

    The parts of a path are separated by dots. A whole number is an index; a part in double quotes
    is a name with any characters, written as in JSON.
    """
    path, end = _path(text)
    if not path or text[end : end + 1] != "=":
        raise InvalidOption(f"--set: {text!r} is not PATH=VALUE, such as budget.loops=5")
    return path, text[end + 1 :]


def parse_path(text: str) -> tuple[Part, ...]:
    """Return the parts of a path; raises `InvalidOption`."""
    path, end = _path(text)
    if not path or end < len(text):
        raise InvalidOption(f"{text!r} is not a path, such as budget.loops or datasets.0.name")
    return path


def dotted(path: Sequence[Part]) -> str:
    """Return a path as `parse_path` reads it."""
    return ".".join(
        part if isinstance(part, str) and _is_plain(part) else json.dumps(part) for part in path
    )


def json_or_text(text: str) -> Any:
    """Return the value of a JSON text, and any other text as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def assign(body: dict[str, Any], path: Sequence[Part], value: Any) -> None:
    """Set the value at a path; missing objects and lists on the way are made.

    An index is at most the length of its list, to which that one appends. Raises `InvalidOption`
    where a part of the path leads through something that has no such part.
    """
    place: Any = body
    for number, part in enumerate(path[:-1]):
        inner = _value(place, part, path[:number])
        if inner is None:
            inner = [] if isinstance(path[number + 1], int) else {}
            _put(place, part, inner)
        place = inner
    _value(place, path[-1], path[:-1])
    _put(place, path[-1], value)


def _path(text: str) -> tuple[tuple[Part, ...], int]:
    """The path at the beginning of a text, and where it ends."""
    parts: list[Part] = []
    end = 0
    while (found := _PART.match(text, end)) is not None:
        parts.append(_part(found.group()))
        end = found.end()
        if text[end : end + 1] != ".":
            return tuple(parts), end
        end += 1
    return (), end


def _part(text: str) -> Part:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError as error:
            raise InvalidOption(f"{text} is not a JSON string") from error
    return int(text) if _INDEX.fullmatch(text) else text


def _is_plain(part: str) -> bool:
    return _PART.fullmatch(part) is not None and part[0] != '"' and not _INDEX.fullmatch(part)


def _value(place: Any, part: Part, above: Sequence[Part]) -> Any:
    """What is at a part of an object or list, None where nothing is."""
    if isinstance(place, dict):
        return place.get(str(part))
    where = dotted(above)
    if not isinstance(place, list):
        raise InvalidOption(f"{where} is {json.dumps(place)[:100]}, which has no {part!r}")
    if not isinstance(part, int):
        raise InvalidOption(f"{where} is a list: {part!r} is not an index")
    if part > len(place):
        raise InvalidOption(f"{where} has {len(place)} elements: {part} is not the next index")
    return place[part] if part < len(place) else None


def _put(place: Any, part: Part, value: Any) -> None:
    if isinstance(place, dict):
        place[str(part)] = value
    elif part == len(place):
        place.append(value)
    else:
        place[part] = value
