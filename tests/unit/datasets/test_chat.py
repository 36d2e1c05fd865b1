"""Chat rows: what is accepted, and the path that an error names."""

import copy
from typing import Any

import pytest

from services.datasets.formats import read_chat
from services.datasets.record import RowError

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def row() -> dict[str, Any]:
    """A row that uses every part of the format."""
    return copy.deepcopy(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "1+"}, {"type": "text", "text": "1?"}],
                },
                {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]},
                {"role": "tool", "tool_call_id": "c2", "content": "2"},
                {"role": "tool", "tool_call_id": "c1", "content": "2"},
                {"role": "assistant", "content": "2", "weight": 1, "name": None},
            ],
            "tools": [TOOL],
            "parallel_tool_calls": True,
            "source": "extra keys are allowed",
        }
    )


def test_a_row_with_every_part_is_accepted() -> None:
    example = read_chat(row())
    assert [role for role, _ in example.turns] == [
        "system", "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip
    assert example.turns[1] == ("user", "1+1?")
    assert (example.answers, example.tool_calls) == (2, 2)
    assert "add" in example.tools


def test_arguments_may_be_an_object_and_the_last_message_a_call() -> None:
    changed = row()
    del changed["messages"][3:]
    changed["messages"][2]["tool_calls"][0]["function"]["arguments"] = {"a": 1}
    assert read_chat(changed).tool_calls == 2


def test_null_keys_count_as_absent() -> None:
    nulls = {"tool_calls": None, "tool_call_id": None, "name": None, "weight": None}
    changed: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": "a", **nulls},
            {"role": "assistant", "content": "b", **nulls},
        ],
        "tools": None,
        "parallel_tool_calls": None,
    }
    assert read_chat(changed).tool_calls == 0


def put(target: Any, path: tuple[Any, ...], value: Any) -> None:
    """Set the value at a path, or remove it when the value is ``...``."""
    for step in path[:-1]:
        target = target[step]
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value


FUNCTION = ("messages", 2, "tool_calls", 0, "function")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("messages",), ..., "messages is missing"),
        (("messages",), [], "messages is empty"),
        (("messages",), "hi", "messages is 'hi', not a list"),
        (("messages", 1), None, "messages[1] is null, not an object"),
        (("messages", 1, "role"), ..., "messages[1].role is missing"),
        (("messages", 1, "role"), "bot", "messages[1].role is 'bot'; known are system, dev"),
        (("messages", 1, "role"), {}, "messages[1].role is an object; known are"),
        (("messages", 1, "content"), ..., "messages[1].content is missing"),
        (("messages", 1, "content"), 3, "messages[1].content is 3, not a string or a list"),
        (("messages", 1, "content"), [], "messages[1].content is an empty list"),
        (("messages", 1, "content", 1), "x", "messages[1].content[1] is 'x', not an object"),
        (("messages", 1, "content", 1, "type"), "image_url", "messages[1].content[1].type is 'im"),
        (("messages", 1, "content", 1, "text"), ..., "messages[1].content[1].text is missing"),
        (("messages", 1, "name"), 1, "messages[1].name is 1, not a string"),
        (("messages", 1, "weight"), 1, "messages[1].weight: only assistant messages have one"),
        (("messages", 1, "tool_calls"), [CALL], "messages[1].tool_calls: only the assistant"),
        (("messages", 1, "function_call"), {}, "messages[1].function_call is OpenAI's deprecated"),
        (("messages", 2, "tool_calls"), "x", "messages[2].tool_calls is 'x', not a list"),
        (("messages", 2, "tool_calls"), ..., "messages[2].content is missing"),
        (("messages", 2, "tool_calls", 0), 1, "messages[2].tool_calls[0] is 1, not an object"),
        (("messages", 2, "tool_calls", 0, "type"), ..., "messages[2].tool_calls[0].type is null"),
        (("messages", 2, "tool_calls", 0, "id"), ..., "messages[2].tool_calls[0].id is missing"),
        (("messages", 2, "tool_calls", 0, "id"), "c2", "messages[2].tool_calls[1].id is 'c2', li"),
        (FUNCTION, None, "messages[2].tool_calls[0].function is missing"),
        ((*FUNCTION, "name"), "", "messages[2].tool_calls[0].function.name is empty"),
        ((*FUNCTION, "arguments"), ..., "messages[2].tool_calls[0].function.arguments is missing"),
        (
            (*FUNCTION, "arguments"),
            "{",
            "messages[2].tool_calls[0].function.arguments is not valid JSON",
        ),
        ((*FUNCTION, "arguments"), '{"a": "\\ud800"}', "messages[2].tool_calls[0].function.argum"),
        ((*FUNCTION, "arguments"), "[]", "messages[2].tool_calls[0].function.arguments is JSON o"),
        (("messages", 3, "tool_call_id"), ..., "messages[3].tool_call_id is missing"),
        (("messages", 3, "tool_call_id"), "c9", "messages[3].tool_call_id is 'c9', which answers"),
        (("messages", 3, "tool_call_id"), "c1", "messages[4].tool_call_id is 'c1', which answers"),
        (("messages", 4), ..., "messages[2].tool_calls[0] has no tool message that answers it"),
        (("messages", 5, "weight"), 2, "messages[5].weight is 2, not 0 or 1"),
        (("messages", 5, "weight"), True, "messages[5].weight is true, not 0 or 1"),
        (("messages", 5), ..., "messages[4].role is 'tool'; the last must be 'assistant'"),
        (("messages", 0, "role"), "assistant", "messages[0].role is 'assistant' with no question"),
        (("messages", 1, "role"), "system", "messages[1].role is 'system'; only the first message"),
        (("messages", 0, "role"), "user", "messages[1].role is 'user' after 'user'; user and as"),
        (("tools",), {}, "tools is an object, not a list"),
        (("tools",), "x", "tools is not valid JSON: expecting value at character 1"),
        (("tools",), "{}", "tools is JSON of an object, not of a list"),
        (("tools", 0), 1, "tools[0] is 1, not an object"),
        (("tools", 0, "type"), "web", "tools[0].type is 'web', not 'function'"),
        (("tools", 0, "function"), ..., "tools[0].function is missing"),
        (("tools", 0, "function", "name"), ..., "tools[0].function.name is missing"),
        (("tools", 0, "function", "parameters"), [], "tools[0].function.parameters is a list"),
        (("functions",), [], "functions is OpenAI's deprecated way of offering tools"),
        (("parallel_tool_calls",), 1, "parallel_tool_calls is 1, not a boolean"),
    ],
)
def test_an_error_names_the_path(path: tuple[Any, ...], value: Any, message: str) -> None:
    changed = row()
    put(changed, path, value)
    with pytest.raises(RowError) as caught:
        read_chat(changed)
    assert caught.value.message.startswith(message)


def test_a_row_without_trained_turns_is_an_error() -> None:
    changed = row()
    for position in (2, 5):
        changed["messages"][position]["weight"] = 0
    with pytest.raises(RowError, match="every assistant message has weight 0"):
        read_chat(changed)
