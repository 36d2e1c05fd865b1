"""Reading arbitrary bytes yields rows and problems or raises the one typed error."""

import contextlib
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from services.datasets.record import Record, UnreadableFile
from tests.unit.datasets.conftest import Read

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.lists(st.dictionaries(TEXT, VALUES, max_size=4), min_size=1, max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "messages": st.lists(
                st.fixed_dictionaries({"role": TEXT, "content": TEXT}), min_size=1, max_size=3
            ),
            "id": st.integers(-(2**63), 2**63 - 1),
            "score": st.floats(allow_nan=False, allow_infinity=False),
            "good": st.booleans(),
        }
    ),
    min_size=1,
    max_size=8,
)


def jsonl(rows: list[Any]) -> bytes:
    """One value per line."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_array(rows: list[Any]) -> bytes:
    """One array, without escapes and spread over lines."""
    return json.dumps(rows, ensure_ascii=False, indent=1).encode()


def parquet(rows: list[Any]) -> bytes:
    """One table."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


@settings(deadline=None)
@given(ROWS)
def test_all_containers_yield_the_same_rows(read: Read, rows: list[Any]) -> None:
    expected = [Record(number, row) for number, row in enumerate(rows, start=1)]
    assert read(jsonl(rows)) == expected
    assert read(as_array(rows)) == expected
    assert read(parquet(rows)) == expected


@settings(deadline=None)
@given(OBJECTS)
def test_any_json_object_round_trips(read: Read, rows: list[Any]) -> None:
    expected = [Record(number, row) for number, row in enumerate(rows, start=1)]
    assert read(jsonl(rows)) == expected
    assert read(as_array(rows)) == expected


@settings(deadline=None)
@given(st.sampled_from([b"", b"{", b"[", b'[{"a": ', b'{"a": 1}\n', b"PAR1"]), st.binary())
def test_arbitrary_bytes_raise_only_the_typed_error(read: Read, start: bytes, rest: bytes) -> None:
    with contextlib.suppress(UnreadableFile):
        read(start + rest)


@settings(deadline=None)
@given(ROWS, st.sampled_from([jsonl, as_array, parquet]), st.data())
def test_any_corruption_raises_only_the_typed_error(
    read: Read, rows: list[Any], write: Any, data: st.DataObject
) -> None:
    content = bytearray(write(rows))
    position = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(0, 20))
    content[position : position + length] = data.draw(st.binary(max_size=20))
    with contextlib.suppress(UnreadableFile):
        read(bytes(content))
