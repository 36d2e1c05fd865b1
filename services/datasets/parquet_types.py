"""The Arrow types whose values are JSON's."""

import pyarrow as pa
from pyarrow import types

from services.datasets.record import MAX_DEPTH, UnreadableFile, shown


def json_schema(schema: pa.Schema) -> pa.Schema:
    """The schema to cast rows to so that every value, floats aside, is one that JSON has.

    Raises UnreadableFile for columns of the same name and for a type that cannot be cast.
    """
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise UnreadableFile(f"the file has two columns named {shown(name)}")
    return pa.schema([pa.field(field.name, _json_type(field.type, field.name)) for field in schema])


def has_floats(schema: pa.Schema) -> bool:
    """Whether any value is a float, which may be NaN or infinite."""
    return any(_holds_float(field.type) for field in schema)


def _json_type(kind: pa.DataType, column: str, depth: int = 1) -> pa.DataType:
    if depth >= MAX_DEPTH:
        raise UnreadableFile(f"column {shown(column)} is nested more than {MAX_DEPTH} levels deep")
    if types.is_dictionary(kind):
        return _json_type(kind.value_type, column, depth)
    if types.is_struct(kind):
        fields = [pa.field(item.name, _json_type(item.type, column, depth + 1)) for item in kind]
        return pa.struct(fields)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.large_list(_json_type(kind.value_type, column, depth + 1))
    if types.is_map(kind):
        key = _json_type(kind.key_type, column, depth + 1)
        return pa.map_(key, _json_type(kind.item_type, column, depth + 1))
    return _json_leaf(kind, column)


def _json_leaf(kind: pa.DataType, column: str) -> pa.DataType:
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind):
        return kind
    if types.is_floating(kind) or types.is_decimal(kind):
        return pa.float64()
    if types.is_temporal(kind) or _is_text(kind):
        return pa.large_string()
    raise UnreadableFile(f"column {shown(column)} has the type {kind}, which JSON cannot express")


def _is_text(kind: pa.DataType) -> bool:
    """Binary columns count: writers that annotate no text store their strings so."""
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(test(kind) for test in (*tests, *binary))


def _holds_float(kind: pa.DataType) -> bool:
    if types.is_floating(kind):
        return True
    return any(_holds_float(kind.field(index).type) for index in range(kind.num_fields))
