"""What servers send is either read into something that can be kept, or refused as a whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from services.parsing.foreign_json import (
    MAX_DEPTH,
    escape_line_ends,
    json_line,
    parse_foreign,
    read_foreign,
)


class Kept(BaseModel):
    value: object = None


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'"half \\ud83d of a pair"', "half \ufffd of a pair"),
        (b'{"\\udc00": ["\\ud83d\\ude00", "\\ud800\\ud800"]}', {"\ufffd": ["😀", "\ufffd\ufffd"]}),
        (b'"\\\\ud800"', "\\ud800"),
        (b"\xef\xbb\xbf[1]", [1]),
        (b'"\xff"', "\ufffd"),
        (b"[NaN, Infinity, -Infinity, 1e999, 1e3]", [None, None, None, None, 1000.0]),
        (b"%d" % 10**30, 10**30),
    ],
)
def test_odd_values_are_read_as_what_can_be_kept(body: bytes, value: object) -> None:
    assert parse_foreign(body) == value


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{", nested(MAX_DEPTH + 1), nested(100_000), b"9" * 5000]
)
def test_anything_else_is_refused(body: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_foreign(body)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(exclude_categories=())),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    )
)
def test_whatever_is_read_can_be_appended_to_a_log_and_read_again(value: object) -> None:
    kept = Kept(value=parse_foreign(json.dumps(value)))
    line = json_line(kept)

    assert len(line.decode().splitlines()) == 1
    assert Kept.model_validate_json(line) == kept


def test_a_record_with_half_a_pair_is_written_with_a_replacement() -> None:
    assert json_line(Kept(value={"a": ["\ud800", "\ud83d\ude00"]})).decode() == (
        '{"value":{"a":["\ufffd","😀"]}}\n'
    )


def test_a_model_is_read_from_a_body_with_half_a_pair_in_any_field() -> None:
    assert read_foreign(Kept, b'{"value": 1, "other": "\\ud800"}').value == 1
    with pytest.raises(ValueError, match="body: Input should be"):
        read_foreign(Kept, b"[1]")


def test_line_ends_inside_of_strings_are_escaped() -> None:
    text = json.dumps(["a\u2028b\u2029c\x85d\x0be"], ensure_ascii=False)

    assert len(escape_line_ends(text).splitlines()) == 1
    assert json.loads(escape_line_ends(text)) == json.loads(text)
