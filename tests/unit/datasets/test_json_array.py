"""JSON: the rows of one array; syntax errors are located."""

import json

import pytest

from services.datasets.record import Problem, Record, UnreadableFile
from tests.unit.datasets.conftest import Read


def test_array_elements_are_rows(read: Read) -> None:
    rows = read(b'\xef\xbb\xbf [\n {"a": 1.5},\n {"b": "\xc3\xa9"}, 3 ]\n')
    assert rows == [Record(1, {"a": 1.5}), Record(2, {"b": "é"}), Record(3, 3)]


def test_an_empty_array_has_no_rows(read: Read) -> None:
    assert read(b" [ ] ") == []


def test_a_file_larger_than_the_window_is_read_completely(read: Read) -> None:
    values = [[-1.5e-7 * n, n, "é漢😀" * (n % 7), {"k": None}] for n in range(20_000)]
    flat = [item for value in values for item in value]
    rows = read(json.dumps(flat, ensure_ascii=False).encode())
    assert [row.value for row in rows if isinstance(row, Record)] == flat


def test_an_element_larger_than_the_window_is_read(read: Read) -> None:
    long = "x" * 1_000_000
    assert read(json.dumps([1, {"a": long}, 2]).encode())[1] == Record(2, {"a": long})


def test_an_invalid_element_is_reported_for_its_row(read: Read) -> None:
    rows = read(b'[{"a": 1, "a": 2}, NaN, 1e999, "\\udc00", {"ok": 1}]')
    assert [row.row for row in rows if isinstance(row, Problem)] == [1, 2, 3, 4]
    assert rows[4] == Record(5, {"ok": 1})


def test_an_oversized_element_is_reported(read: Read) -> None:
    rows = read(json.dumps(["x" * 200, 1]).encode(), max_row_bytes=100)
    assert rows == [Problem(1, "is longer than 100 bytes"), Record(2, 1)]


def test_an_unterminated_element_is_abandoned(read: Read) -> None:
    with pytest.raises(UnreadableFile, match="row 2: is longer than 100 bytes"):
        read(b'[1, "' + b"x" * 10_000_000, max_row_bytes=100)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[\n {"a": 1},\n {"a', "row 2: the file ends in the middle of this row, at line 3, col"),
        (b'[{"a": 1}, ', "row 2: the file ends in the middle of this row, at line 1, column 12"),
        (b'[\n{"a": 1}', "the file ends after row 1 without a closing ']', at line 2, column 9"),
        (
            b'[\n {"a": 1},\n {"a" 2}]',
            "row 2: is not valid JSON: expecting ':' delimiter at line 3",
        ),
        (b'[{"a": 1},]', "row 2: is not valid JSON: expecting value at line 1, column 11"),
        (b'[{"a": 1}\n{"b": 2}]', "expecting ',' or ']' after row 1, at line 2, column 1"),
        (b"[1]\n[2]\n", "there is more text after the array, at line 2, column 1"),
        (b'["\xff"]', "the file is not UTF-8: byte 0xff at offset 2"),
        (b"[%s]" % (b"9" * 5000), "row 1: holds an integer with too many digits"),
        (b"[1, %s" % (b"[" * 100_000), "row 2: is nested more than 100 levels deep"),
    ],
)
def test_a_syntax_error_is_located(read: Read, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        read(content)
    assert caught.value.message.startswith(message)
