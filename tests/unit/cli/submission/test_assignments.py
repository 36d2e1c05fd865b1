"""Values set by path."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from temper.submission.assignments import (
    InvalidOption,
    assign,
    dotted,
    json_or_text,
    parse_assignment,
    parse_path,
)

NAMES = st.text(max_size=12)
PATHS = st.lists(NAMES | st.integers(0, 99), min_size=1, max_size=6).map(tuple)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(path=PATHS, value=st.text())
def test_a_path_is_read_as_it_is_written(path: tuple[str | int, ...], value: str) -> None:
    assert parse_path(dotted(path)) == path
    assert parse_assignment(f"{dotted(path)}={value}") == (path, value)


@given(value=VALUES)
def test_a_value_in_json_is_that_value(value: Any) -> None:
    assert json_or_text(json.dumps(value)) == value


@given(names=st.lists(NAMES, min_size=1, max_size=5), value=VALUES)
def test_what_is_set_is_there_and_the_rest_stays(names: list[str], value: Any) -> None:
    body: dict[str, Any] = {"other than generated": [1]}

    assign(body, names, value)

    place: Any = body
    for name in names:
        place = place[name]
    assert place == value
    assert body["other than generated"] == [1]


@given(text=st.text(max_size=30))
def test_no_text_breaks_the_reading_of_assignments(text: str) -> None:
    try:
        path, value = parse_assignment(text)
    except InvalidOption:
        return
    assert text.endswith(f"={value}")
    assert parse_path(dotted(path)) == path


def test_lists_are_filled_by_index_and_grow_at_their_end() -> None:
    body: dict[str, Any] = {"datasets": [{"name": "a"}], "stop": None}

    assign(body, parse_path("datasets.0.file"), "f")
    assign(body, parse_path("datasets.1.name"), "b")
    assign(body, parse_path("stop.0"), "x")
    assign(body, parse_path('metadata."0"'), "zero")

    assert body["datasets"] == [{"name": "a", "file": "f"}, {"name": "b"}]
    assert (body["stop"], body["metadata"]) == (["x"], {"0": "zero"})


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("model.url", "model is \"m\", which has no 'url'"),
        ("datasets.name", "datasets is a list: 'name' is not an index"),
        ("datasets.2.name", "datasets has 1 elements: 2 is not the next index"),
    ],
)
def test_a_path_through_something_else_is_refused(path: str, said: str) -> None:
    body = {"model": "m", "datasets": [{}]}

    with pytest.raises(InvalidOption) as caught:
        assign(body, parse_path(path), 1)

    assert said in caught.value.message
    assert body == {"model": "m", "datasets": [{}]}


@pytest.mark.parametrize(
    "text", ["", "=1", "loops", "a..b=1", ".a=1", 'a."b=1', "a.=1", '"\\u12"=1']
)
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        parse_assignment(text)
