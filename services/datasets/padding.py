"""Null keys that writers of columns pad objects with.

A column of objects has one set of keys: in Parquet, and in JSON Lines that the datasets library
writes, an object has null for each key that only others have. A tool would seem to have the
parameters of all others, and the model would learn to pass null for them.
"""

from services.datasets.record import JsonValue


def without_padding(row: JsonValue) -> JsonValue:
    """A row without the null keys of objects inside its columns; a null column stays."""
    if not isinstance(row, dict):
        return row
    return {name: _unpadded(value) for name, value in row.items()}


def _unpadded(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _unpadded(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_unpadded(item) for item in value]
    return value
