"""Parquet: columns become keys, and values become JSON values."""

import datetime
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services.datasets.containers import parquet as reader
from services.datasets.record import Problem, Record, UnreadableFile
from tests.unit.datasets.conftest import Read


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    """A Parquet file of the given columns."""
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, **options)
    return buffer.getvalue()


def test_nested_columns_become_objects_and_lists(read: Read) -> None:
    messages = [{"role": "user", "content": "é"}, {"role": "assistant", "content": None}]
    rows = read(parquet({"messages": [messages, []], "n": [1, None]}))
    assert rows == [
        Record(1, {"messages": [messages[0], {"role": "assistant"}], "n": 1}),
        Record(2, {"messages": [], "n": None}),
    ]


def test_null_keys_that_pad_objects_are_left_out(read: Read) -> None:
    tools = [
        {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}},
        {"name": "add", "parameters": {"properties": {"x": {"type": "integer", "enum": [1]}}}},
    ]
    rows = {"tools": [tools], "extra_info": [{"a": None, "b": [None, 1]}], "note": [None]}

    assert read(parquet(rows)) == [
        Record(1, {"tools": tools, "extra_info": {"b": [None, 1]}, "note": None})
    ]


def test_non_json_values_become_the_closest_json_value(read: Read) -> None:
    columns = {
        "day": [datetime.date(2024, 5, 1)],
        "price": [Decimal("12.50")],
        "text": [b"caf\xc3\xa9"],
        "missing": [float("nan")],
        "nested": [[{"x": float("inf"), "day": datetime.date(2024, 5, 1)}]],
        "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "kind": pa.array(["chat"]).dictionary_encode(),
    }
    assert read(parquet(columns)) == [
        Record(
            1,
            {
                "day": "2024-05-01",
                "price": 12.5,
                "text": "café",
                "missing": None,
                "nested": [{"x": None, "day": "2024-05-01"}],
                "tags": {"a": 1},
                "kind": "chat",
            },
        )
    ]


def test_rows_are_numbered_across_row_groups_and_batches(read: Read) -> None:
    rows = read(parquet({"n": list(range(1000))}, row_group_size=300))
    assert [(row.row, row.value["n"]) for row in rows if isinstance(row, Record)] == [
        (n + 1, n) for n in range(1000)
    ]


def test_a_row_with_invalid_utf8_is_reported(read: Read) -> None:
    rows = read(parquet({"text": [b"ok", b"\xff", b"ok"]}))
    message = "holds a value that JSON cannot express, or text that is not UTF-8"
    assert rows == [Record(1, {"text": "ok"}), Problem(2, message), Record(3, {"text": "ok"})]


def test_an_oversized_row_is_reported(read: Read) -> None:
    rows = read(parquet({"text": ["a", "x" * 5000, "b"]}), max_row_bytes=1000)
    assert [type(row) for row in rows] == [Record, Problem, Record]


def test_a_corrupt_file_is_explained_without_its_path(read: Read) -> None:
    whole = parquet({"text": ["a" * 100] * 100})
    for content in (b"PAR1", whole[:-20], whole[: len(whole) // 2] + b"PAR1"):
        with pytest.raises(UnreadableFile, match="the Parquet file is damaged") as caught:
            read(content)
        assert "/" not in caught.value.message


def test_duplicate_column_names_are_refused(read: Read) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), buffer)
    with pytest.raises(UnreadableFile, match="two columns named 'a'"):
        read(buffer.getvalue())


@pytest.mark.drill
def test_a_small_file_cannot_expand_without_bound(read: Read) -> None:
    content = parquet({"text": ["a" * 2**27]}, compression="zstd")
    assert len(content) < 100_000
    with pytest.raises(UnreadableFile, match=r"column 'text' expands from .* 200 times"):
        read(content)


def test_a_footer_that_understates_the_size_is_not_trusted(read: Read) -> None:
    content = parquet({"text": ["a" * 2**27]}, compression="zstd", use_dictionary=False)
    metadata = pq.read_metadata(io.BytesIO(content))
    begin = len(content) - metadata.serialized_size - 8
    told = varint(2 * metadata.row_group(0).column(0).total_uncompressed_size)
    thousand = b"\xd0\x8f\x80\x80\x00"  # of the same length
    lying = content[:begin] + content[begin:].replace(told, thousand)
    chunk = pq.read_metadata(io.BytesIO(lying)).row_group(0).column(0)
    assert chunk.total_uncompressed_size == 1000

    with pytest.raises(UnreadableFile, match=r"column 'text' expands from .* 200 times"):
        read(lying)


def varint(number: int) -> bytes:
    """A number as Thrift's compact protocol writes it."""
    rest, digit = number >> 7, number & 0x7F
    return bytes([digit | 0x80]) + varint(rest) if rest else bytes([digit])


def test_many_columns_cannot_expand_together_without_bound(read: Read) -> None:
    columns = {f"c{number}": ["a" * 2**24] for number in range(8)}
    with pytest.raises(UnreadableFile, match=r"expands from .* 200 times"):
        read(parquet(columns, compression="zstd"))


def test_pages_of_every_kind_are_read(read: Read) -> None:
    rows = {"n": list(range(5000)), "text": [f"text {n}" for n in range(5000)]}
    for version in ("1.0", "2.0"):
        content = parquet(rows, data_page_version=version, data_page_size=512, row_group_size=700)
        assert len(read(content)) == 5000


def test_the_number_of_pages_is_bounded(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_PAGES", 3)
    with pytest.raises(UnreadableFile, match="more than 3 pages"):
        read(parquet({"n": list(range(100))}, row_group_size=10))


def test_a_file_cannot_declare_rows_without_bound(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_ROWS", 2)
    with pytest.raises(UnreadableFile, match="the file has 3 rows; 2 are allowed"):
        read(parquet({"n": [1, 2, 3]}))
