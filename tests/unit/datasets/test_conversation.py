import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.conversation import (
    Conversation,
    ConversationReader,
    Message,
)
from services.datasets.record import RowError
from tests.unit.trainer.chatml import TEXT

PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4)


def read_conversation(data_format: DataFormat, row: dict[str, Any]) -> Conversation:
    """The conversation of a demonstration."""
    reader = ConversationReader(RowKind.DEMONSTRATION, data_format)
    return reader.read(row).conversations[0]


def as_chat(system: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}] if system else []
    for question, answer in pairs:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
    return {"messages": messages}


def as_alpaca(system: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    *history, (question, answer) = pairs
    return {
        "instruction": question,
        "input": None,
        "output": answer,
        "system": system,
        "history": [list(pair) for pair in history],
    }


def as_sharegpt(system: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    turns = []
    for question, answer in pairs:
        turns.append({"from": "human", "value": question})
        turns.append({"from": "gpt", "value": answer})
    return {"conversations": turns, "system": system}


@given(st.one_of(st.just(""), TEXT), PAIRS)
def test_equivalent_rows_of_all_formats_give_the_same_conversation(
    system: str, pairs: list[tuple[str, str]]
) -> None:
    rows = [write(system, pairs) for write in (as_chat, as_alpaca, as_sharegpt)]

    conversations = [read_conversation(DataFormat.AUTO, row) for row in rows]

    assert conversations[0] == conversations[1] == conversations[2]
    assert sum(message.learned for message in conversations[0].messages) == len(pairs)


def test_alpaca_input_follows_the_instruction() -> None:
    row = {"instruction": "Add.", "input": "1 and 2", "output": "3"}

    conversation = read_conversation(DataFormat.ALPACA, row)

    assert conversation == Conversation(
        (Message("user", "Add.\n1 and 2"), Message("assistant", "3", learned=True))
    )


def test_tool_calls_mean_the_same_in_chat_and_sharegpt() -> None:
    tool = {"name": "add", "parameters": {"type": "object"}}
    call = {"name": "add", "arguments": {"a": 1}}
    chat = {
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "add", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "assistant", "content": "done"},
        ],
        "tools": [{"type": "function", "function": tool}],
    }
    sharegpt = {
        "conversations": [
            {"from": "human", "value": "q"},
            {"from": "function_call", "value": json.dumps(call)},
            {"from": "observation", "value": "1"},
            {"from": "gpt", "value": "done"},
        ],
        "tools": json.dumps([tool]),
    }

    one = read_conversation(DataFormat.CHAT, chat)
    other = read_conversation(DataFormat.SHAREGPT, sharegpt)

    assert one.tools == other.tools
    for left, right in zip(one.messages, other.messages, strict=True):
        assert (left.role, left.content, left.learned) == (right.role, right.content, right.learned)
        assert [(c.name, c.arguments) for c in left.tool_calls] == [
            (c.name, c.arguments) for c in right.tool_calls
        ]


def test_nulls_filled_in_by_parquet_count_as_absent() -> None:
    row = {
        "messages": [
            {
                "role": "user",
                "content": "q",
                "tool_calls": None,
                "tool_call_id": None,
                "weight": None,
            },
            {"role": "assistant", "content": "a", "tool_calls": None, "name": None, "weight": 1},
        ],
        "tools": None,
    }

    assert read_conversation(DataFormat.CHAT, row) == Conversation(
        (Message("user", "q"), Message("assistant", "a", learned=True))
    )


def test_zero_weight_turns_are_not_learned_and_trailing_ones_are_dropped() -> None:
    row = as_chat("", [("a", "A"), ("b", "B"), ("c", "C")])
    row["messages"][1]["weight"] = 0
    row["messages"][5]["weight"] = 0

    conversation = read_conversation(DataFormat.CHAT, row)

    assert [message.content for message in conversation.messages] == ["a", "A", "b", "B"]
    assert [message.learned for message in conversation.messages] == [False, False, False, True]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": [{"role": "user"}]}, r"messages\[0\]\.content is missing"),
        ({"conversations": [{"from": "robot", "value": "x"}]}, r"conversations\[0\]\.from"),
        ({"instruction": "x"}, "output is missing"),
        ({"text": "x"}, "none of the keys"),
    ],
)
def test_an_invalid_row_names_the_field(row: dict[str, Any], message: str) -> None:
    with pytest.raises(RowError, match=message):
        read_conversation(DataFormat.AUTO, row)


def test_null_keys_that_pad_objects_are_no_part_of_tools_and_arguments() -> None:
    """As in JSON Lines that the datasets library writes."""
    tools = [
        {"name": name, "parameters": {"properties": {"city": city, "x": x}}}
        for name, city, x in (
            ("get_weather", {"type": "string"}, None),
            ("add", None, {"type": "integer"}),
        )
    ]
    function = {"name": "get_weather", "arguments": {"city": "Paris", "x": None}}
    call = {"id": "a", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": "How is the weather?", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]

    read = ConversationReader(RowKind.DEMONSTRATION, DataFormat.AUTO)
    (conversation,) = read.read({"messages": messages, "tools": tools}).conversations

    properties = [tool["function"]["parameters"]["properties"] for tool in conversation.tools]
    assert properties == [{"city": {"type": "string"}}, {"x": {"type": "integer"}}]
    assert conversation.messages[1].tool_calls[0].arguments == {"city": "Paris"}


@pytest.mark.parametrize(
    "said", [{"weight": 0}, {"loss": False}, {"train": 0}, {"trainable": False}, {"loss_mask": 0}]
)
@pytest.mark.parametrize("data_format", [DataFormat.CHAT, DataFormat.SHAREGPT])
def test_an_answer_that_says_it_is_not_trained_is_not_learned(
    data_format: DataFormat, said: dict[str, Any]
) -> None:
    column, role, content, names = {
        DataFormat.CHAT: ("messages", "role", "content", ("user", "assistant")),
        DataFormat.SHAREGPT: ("conversations", "from", "value", ("human", "gpt")),
    }[data_format]
    turns = [{role: names[n % 2], content: text} for n, text in enumerate(("a", "BAD", "b", "B"))]
    turns[1] |= said

    read = read_conversation(data_format, {column: turns})

    assert [message.learned for message in read.messages] == [False, False, False, True]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_read_under_every_name(key: str) -> None:
    chat = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "A"}]}
    chat["messages"][1][key] = "why"
    sharegpt = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "A"}]}
    sharegpt["conversations"][1][key] = "why"

    read = [
        read_conversation(DataFormat.CHAT, chat),
        read_conversation(DataFormat.SHAREGPT, sharegpt),
    ]

    assert [conversation.messages[1].reasoning for conversation in read] == ["why", "why"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"loss": True, "train": False}, "messages[1].loss and messages[1].train contradict"),
        ({"loss_mask": [1, 0]}, "messages[1].loss_mask is a list, not 0 or 1"),
        ({"thinking": {"a": 1}}, "messages[1].thinking is an object, not a string"),
        ({"thinking": "a", "reasoning": "b"}, "messages[1].reasoning and messages[1].thinking"),
    ],
)
def test_what_a_message_says_of_itself_is_checked(fields: dict[str, Any], problem: str) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "A", **fields}]

    with pytest.raises(RowError) as caught:
        read_conversation(DataFormat.CHAT, {"messages": turns})

    assert caught.value.message.startswith(problem)


def test_a_call_may_have_no_arguments_at_all() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "now", "arguments": ""}}
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]

    read = read_conversation(DataFormat.CHAT, {"messages": turns})

    assert read.messages[1].tool_calls[0].arguments == {}
