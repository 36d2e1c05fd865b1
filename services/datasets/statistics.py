"""Statistics of a file's rows: fields, lengths and the first rows."""

from array import array
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from services.contracts.data.datasets import (
    CHARACTERS_PER_TOKEN,
    DatasetField,
    DatasetStatistics,
    TokenStatistics,
)
from services.contracts.errors import InvalidRequest
from services.datasets.containers.container import Container
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem

MAX_ROWS = 10_000_000
MAX_FIELDS = 1000
SAMPLES = 3
SAMPLE_CHARACTERS = 1000

_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def describe_rows(path: Path) -> DatasetStatistics:
    """Read a file of JSON Lines as a whole; raises `InvalidRequest` that names the row at fault."""
    records = open_records(path)
    if records.container is not Container.JSONL:
        raise InvalidRequest("a data set is a file of JSON Lines", param="file")
    types: defaultdict[str, set[str]] = defaultdict(set)
    filled: defaultdict[str, int] = defaultdict(int)
    tokens = array("q")
    samples: list[dict[str, Any]] = []
    for record in records:
        if isinstance(record, Problem):
            raise InvalidRequest(str(record), param="file")
        row = record.value
        if not isinstance(row, dict):
            raise InvalidRequest(f"row {record.row} is not an object", param="file")
        if len(tokens) == MAX_ROWS:
            raise InvalidRequest(f"more than {MAX_ROWS:,} rows", param="file")
        for name, value in row.items():
            types[name].add(_TYPES[type(value)])
            filled[name] += value not in (None, "", [], {})
        if len(types) > MAX_FIELDS:
            raise InvalidRequest(f"rows have more than {MAX_FIELDS} fields", param="file")
        tokens.append(-(-_characters(row) // CHARACTERS_PER_TOKEN))
        if len(samples) < SAMPLES:
            samples.append({name: _shortened(value) for name, value in row.items()})
    if not tokens:
        raise InvalidRequest("the file has no rows", param="file")
    fields = [
        DatasetField(name=name, types=sorted(found), filled=filled[name])
        for name, found in types.items()
    ]
    return DatasetStatistics(
        rows=len(tokens), fields=fields, tokens=lengths(tokens), samples=samples
    )


def estimate_tokens(rows: Iterable[JsonValue]) -> TokenStatistics:
    """Estimated tokens of one or more rows, by the characters of their texts."""
    characters = map(_characters, rows)
    return lengths(array("q", (-(-each // CHARACTERS_PER_TOKEN) for each in characters)))


def lengths(tokens: "array[int]") -> TokenStatistics:
    """Statistics of the token counts of one or more rows."""
    ordered = sorted(tokens)
    total = sum(ordered)
    return TokenStatistics(
        total=total,
        mean=total / len(ordered),
        median=ordered[len(ordered) // 2],
        p95=ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
        longest=ordered[-1],
    )


def _characters(value: JsonValue) -> int:
    """Characters of all texts; the reader bounds the depth."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, list) else 0


def _shortened(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value[:SAMPLE_CHARACTERS]
    if isinstance(value, list):
        return [_shortened(each) for each in value[:SAMPLES]]
    if isinstance(value, dict):
        return {name: _shortened(each) for name, each in value.items()}
    return value
