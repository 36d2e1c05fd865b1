"""Read the values of JSON lists and JSON lines files one by one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from temper.client.errors import ClientError


class InvalidInput(ClientError):
    """An input file of the command is invalid."""

    code = "invalid_input"


def read_values(file: Path) -> Iterator[Any]:
    """Yield the values of a JSON list, or of JSON lines, which are read lazily.

    Raises `InvalidInput` with the file and the invalid line.
    """
    try:
        with file.open(encoding="utf-8-sig") as lines:
            begins_list = _first_character(lines) == "["
        if begins_list:
            text = file.read_text(encoding="utf-8-sig")
            # JSON lines whose values are lists also begin with a bracket.
            try:
                whole = json.loads(text)
            except (ValueError, RecursionError):
                pass
            else:
                yield from whole
                return
        with file.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _line(file, number, line)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file}: not UTF-8 (byte {error.start})") from error


def _first_character(lines: Iterator[str]) -> str:
    return next((line.lstrip()[0] for line in lines if line.strip()), "")


def _line(file: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{file}: line {number} is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # too many digits, or nested too deeply
        raise InvalidInput(f"{file}: line {number} cannot be parsed: {error}") from error
