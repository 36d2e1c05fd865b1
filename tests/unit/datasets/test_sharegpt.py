"""Sharegpt rows: what is accepted, and the path that an error names."""

from typing import Any

import pytest

from services.datasets.formats import read_sharegpt
from services.datasets.record import RowError

CALL = '{"name": "add", "arguments": {"a": 1}}'


def message(source: str, value: Any = "x") -> dict[str, Any]:
    """One message of a conversation."""
    return {"from": source, "value": value}


def test_a_conversation_with_calls_is_accepted() -> None:
    example = read_sharegpt(
        {
            "conversations": [
                message("human"),
                message("function_call", f"[{CALL}, {CALL}]"),
                message("observation"),
                message("gpt"),
            ],
            "system": "Be brief.",
            "tools": '[{"name": "add", "description": "Adds.", "parameters": {}}]',
        }
    )
    assert [role for role, _ in example.turns] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert (example.answers, example.tool_calls) == (2, 2)
    assert "Adds." in example.tools


def test_the_first_turn_may_be_the_system_message() -> None:
    example = read_sharegpt(
        {"conversations": [message("system"), message("human"), message("gpt")], "tools": ""}
    )
    assert len(example.turns) == 3


@pytest.mark.parametrize(
    ("conversations", "error"),
    [
        (None, "conversations is missing"),
        ([], "conversations is empty"),
        ({}, "conversations is an object, not a list"),
        ([1], "conversations[0] is 1, not an object"),
        ([{"value": "x"}], "conversations[0].from is missing"),
        ([message("tool")], "conversations[0].from is 'tool'; known are system, human, gpt"),
        ([message("human", None)], "conversations[0].value is missing"),
        ([message("gpt")], "conversations[0].from is 'gpt' where human or observation is expected"),
        ([message("human")], "conversations must end with gpt or function_call"),
        ([message("system")], "conversations must end with gpt or function_call"),
        (
            [message("human"), message("human")],
            "conversations[1].from is 'human' where gpt or function_call is expected",
        ),
        ([message("human"), message("system")], "conversations[1].from is 'system'; only one"),
        (
            [message("human"), message("function_call", "add(1)")],
            "conversations[1].value is not valid JSON: expecting value at character 1",
        ),
        (
            [message("human"), message("function_call", '{"arguments": {}}')],
            "conversations[1].value must be JSON of {name, arguments}",
        ),
        (
            [message("human"), message("function_call", '{"name": "add"}')],
            "conversations[1].value: arguments is missing",
        ),
    ],
)
def test_an_error_names_the_path(conversations: Any, error: str) -> None:
    with pytest.raises(RowError) as caught:
        read_sharegpt({"conversations": conversations})
    assert caught.value.message.startswith(error)


def test_two_system_messages_are_an_error() -> None:
    row = {"system": "a", "conversations": [message("system"), message("human"), message("gpt")]}
    with pytest.raises(RowError, match="only one message, the first, may be"):
        read_sharegpt(row)
