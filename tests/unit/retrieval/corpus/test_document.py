"""Rows of a corpus become passages, or an error that names the field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.datasets.record import RowError
from services.retrieval.corpus.document import Document, parse_row


def test_contents_yield_title_and_text() -> None:
    document = parse_row({"id": "7", "contents": '"Ada Lovelace"\nAn English mathematician.'})

    assert (document.id, document.title) == ("7", "Ada Lovelace")
    assert document.text == "An English mathematician."


def test_title_and_text_yield_search_r1_contents() -> None:
    document = parse_row({"id": 7, "title": "Ada", "text": "A mathematician."})

    assert (document.id, document.contents) == ("7", '"Ada"\nA mathematician.')


def test_a_row_with_both_forms_is_unchanged() -> None:
    row = {"id": "1", "contents": "abc", "title": "T", "text": "other"}

    document = parse_row(row)

    assert (document.contents, document.title, document.text) == ("abc", "T", "other")


def test_a_row_without_id_gets_its_number() -> None:
    assert parse_row({"text": "x"}, "12").id == "12"


def test_ids_can_be_required() -> None:
    with pytest.raises(RowError, match="id is missing"):
        parse_row({"text": "x"})


def test_metadata_and_extra_fields_are_kept() -> None:
    document = parse_row({"id": "1", "text": "x", "metadata": {"year": 1843}, "url": "http://a"})

    assert document.metadata == {"year": 1843}
    assert document.extra == {"url": "http://a"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "is a list, not an object"),
        ({"id": "1"}, "contents is missing"),
        ({"id": "1", "contents": 5}, "contents is 5, not a string"),
        ({"id": "1", "contents": "  \n"}, "contents is empty"),
        ({"id": "1", "text": ""}, "text is empty"),
        ({"id": "1", "text": "x", "title": ["T"]}, "title is a list, not a string"),
        ({"id": True, "text": "x"}, "id is true, not a string or an integer"),
        ({"id": 1.5, "text": "x"}, "id is 1.5"),
        ({"id": "", "text": "x"}, "id is empty"),
        ({"id": "x" * 513, "text": "x"}, "id is longer than 512 characters"),
        ({"id": "1", "text": "x", "metadata": "year"}, "metadata is 'year', not an object"),
        ({"id": "1", "text": "x", "metadata": {"a": [{"b": 2**64}]}}, r"metadata.a\[0\].b is 1844"),
    ],
)
def test_row_errors_name_the_field(row: Any, message: str) -> None:
    with pytest.raises(RowError, match=message):
        parse_row(row, "3")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
names = st.sampled_from(["id", "contents", "title", "text", "metadata", "url"])


@given(st.dictionaries(names, json_values) | json_values)
def test_any_row_is_a_passage_or_a_one_line_error(row: Any) -> None:
    outcome = parsed(row)

    if isinstance(outcome, Document):
        assert outcome.id
        assert outcome.contents.strip()
    else:
        assert outcome
        assert "\n" not in outcome


def parsed(row: Any) -> Document | str:
    try:
        return parse_row(row, "1")
    except RowError as error:
        return error.message
