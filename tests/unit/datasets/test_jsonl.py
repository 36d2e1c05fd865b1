"""JSONL: an invalid line is a problem of its row, and reading continues."""

import pytest

from services.datasets.containers.jsonl import JOINED
from services.datasets.record import Problem, Record
from tests.unit.datasets.conftest import Read


def test_row_numbers_are_line_numbers(read: Read) -> None:
    rows = read(b'{"a": 1}\r\n\r\n  \n{"b": 2}')
    assert rows == [Record(1, {"a": 1}), Record(4, {"b": 2})]


def test_a_byte_order_mark_is_skipped(read: Read) -> None:
    assert read(b'\xef\xbb\xbf{"a": "\xc3\xa9"}\n') == [Record(1, {"a": "é"})]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a" 1}', "is not valid JSON: expecting ':' delimiter at character 6"),
        (b'{"a": "x', "is not valid JSON: unterminated string starting at character 7"),
        (b'{"a": 1} {"b": 2}', "has more text after its JSON value, at character 10"),
        (b'{"a": "\xff"}', "is not UTF-8: byte 0xff at position 8"),
        (b'{"a": "\x00"}', "holds a NUL byte at position 8"),
        (
            b'\xef\xbb\xbf{"a": 1}',
            JOINED,
        ),
        (b'{"a": 1, "a": 2}', "has the key 'a' twice in one object"),
        (b'{"a": NaN}', "holds NaN, which is not JSON"),
        (b'{"a": 1e999}', "holds a number that is too large: 1e999"),
        (b'{"a": %s}' % (b"9" * 5000), "holds an integer with too many digits"),
        (b'{"a": "\\ud83d"}', "contains half of a surrogate pair (\\ud83d), which is not text"),
        (b'{"a": %s%s}' % (b"[" * 100, b"]" * 100), "is nested more than 100 levels deep"),
        (b'{"a": %s' % (b"[" * 100_000), "is nested more than 100 levels deep"),
    ],
)
def test_reading_continues_after_an_invalid_line(read: Read, line: bytes, message: str) -> None:
    rows = read(b'{"ok": 1}\n' + line + b'\n{"ok": 2}\n')
    assert rows == [Record(1, {"ok": 1}), Problem(2, message), Record(3, {"ok": 2})]
    assert str(rows[1]) == f"row 2: {message}"


def test_values_at_the_size_limits_are_read(read: Read) -> None:
    nested = b'{"a": %s%s}' % (b"[" * 99, b"]" * 99)
    emoji = b'{"a": "\\ud83d\\ude00"}'
    assert all(isinstance(row, Record) for row in read(nested + b"\n" + emoji))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_an_oversized_line_is_reported_and_reading_continues(read: Read, end: bytes) -> None:
    just = b'{"a": "%s"}' % (b"x" * 91)
    over = b'{"a": "%s"}' % (b"x" * 92)
    far_over = b'{"a": "%s"}' % (b"x" * 5000)
    rows = read(b"\n".join([just, over, far_over]) + end, max_row_bytes=100)
    too_long = "is longer than 100 bytes"
    assert rows == [Record(1, {"a": "x" * 91}), Problem(2, too_long), Problem(3, too_long)]
