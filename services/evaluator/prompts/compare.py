"""Compares two outputs of prompt batches row by row."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.evaluator.prompts.records import read_prompt_records

COMPARED = ("result", "outcome", "prediction", "error")
SHOWN = 200
"""Maximum characters shown of a value."""


def compare(first: Path, second: Path, out: TextIO) -> int:
    """Print the rows whose result, prediction or error differ; returns 1 if any does."""
    rows = different = 0
    for index, (left, right) in enumerate(zip_longest(_rows(first), _rows(second))):
        rows += 1
        differences = list(_differences(left, right))
        if differences:
            different += 1
            out.write(f"row {index}\n")
            out.writelines(f"  {line}\n" for line in differences)
    out.write(f"{different:,} of {rows:,} rows differ\n")
    return 1 if different else 0


def _rows(path: Path) -> Iterator[JsonObject]:
    """The rows of an output, which must be in order."""
    for number, row in enumerate(read_prompt_records(path)):
        # The index of a CSV file is text.
        if str(row.get("index")) != str(number):
            raise InvalidRequest(f"{path}: row {number} has the index {row.get('index')!r}")
        yield row


def _differences(left: JsonObject | None, right: JsonObject | None) -> Iterator[str]:
    if left is None or right is None:
        yield "only in the " + ("second" if left is None else "first")
        return
    for name in COMPARED:
        if name in left and name in right:
            before, after = _text(left[name]), _text(right[name])
            if before != after:
                yield f"{name}: {_shown(before)} | {_shown(after)}"


def _text(value: Any) -> str | None:
    """A value as tables hold it: lists and objects are JSON text, and nothing is an empty text."""
    return value or None if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)


def _shown(value: str | None) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
