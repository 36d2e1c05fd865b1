"""The schemas that models read, and validation of their arguments."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.rollouts.tools.base import ToolError
from services.rollouts.tools.schema import argument_check, checked_schema


def parameters_read(parameters: JsonObject) -> Any:
    schema = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    return checked_schema(schema, "s")["function"]["parameters"]


def test_the_published_misspelling_is_corrected() -> None:
    published = {"type": "array", "item": {"type": "string"}, "description": "Queries."}

    read = parameters_read({"type": "object", "properties": {"query_list": published}})

    assert read["properties"]["query_list"] == {
        "type": "array",
        "items": {"type": "string"},
        "description": "Queries.",
    }


def test_an_argument_named_item_is_kept() -> None:
    parameters = {"type": "object", "properties": {"item": {"type": "array", "items": {}}}}

    assert parameters_read(parameters) == parameters


def test_unknown_schema_keys_are_hidden_from_the_model() -> None:
    schema = {"type": "function", "extra": 1, "function": {"name": "f", "secret": 2}}

    assert checked_schema(schema, "s") == {
        "type": "function",
        "function": {
            "name": "f",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        },
    }


@pytest.mark.parametrize(
    ("parameters", "arguments", "fits"),
    [
        ({"required": ["a"]}, {"a": 1}, True),
        ({"required": ["a"]}, {}, False),
        ({"properties": {"a": {"pattern": "^x+$"}}}, {"a": "xx"}, True),
        ({"properties": {"a": {"pattern": "^x+$"}}}, {"a": "xy"}, False),
        ({"properties": {"a": {"pattern": "x"}}}, {"a": 5}, True),
        ({"properties": {"a": {"pattern": "^.$"}}}, {"a": "\ud800"}, True),
        (
            {"properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"const": 1}}},
            {"a": 2},
            False,
        ),
        ({"additionalProperties": False}, {"a": 1}, False),
        ({"$ref": "#"}, {}, False),
        ({"$ref": "#/nowhere"}, {}, False),
    ],
)
def test_arguments_are_validated(parameters: JsonObject, arguments: JsonObject, fits: bool) -> None:
    check = argument_check(parameters)
    if fits:
        check(arguments)
    else:
        with pytest.raises(ToolError):
            check(arguments)


def test_patterns_are_matched_in_linear_time() -> None:
    check = argument_check(parameters_read({"properties": {"a": {"pattern": "^(a+)+$"}}}))

    with pytest.raises(ToolError):
        check({"a": "a" * 100_000 + "b"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "items", "item", "properties", "$ref", "pattern", "anyOf", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(schema=st.dictionaries(st.sampled_from(["type", "function", "a"]), JSON, max_size=3))
def test_any_schema_is_accepted_or_refused(schema: JsonObject) -> None:
    with contextlib.suppress(InvalidRequest):
        assert checked_schema(schema, "s")["function"]["name"]


@given(
    parameters=st.dictionaries(
        st.sampled_from(["type", "items", "item", "$ref", "anyOf", "properties"]), JSON
    ),
    arguments=st.dictionaries(st.text(max_size=3), JSON),
)
def test_any_arguments_of_an_accepted_schema_are_accepted_or_refused(
    parameters: JsonObject, arguments: JsonObject
) -> None:
    try:
        read = parameters_read(parameters)
    except InvalidRequest:
        return
    with contextlib.suppress(ToolError):
        argument_check(read)(arguments)


def test_the_flat_schema_of_the_responses_api_is_accepted() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    flat = {"type": "function", "name": "f", "parameters": parameters, "strict": True}

    schema = checked_schema(flat, "s")

    assert schema["type"] == "function"
    assert schema["function"]["name"] == "f"
    assert schema["function"]["strict"] is True
    with pytest.raises(InvalidRequest) as raised:
        checked_schema({**flat, "name": "no name"}, "s")
    assert raised.value.param == "s.function.name"
