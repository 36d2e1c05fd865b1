"""Checking an arbitrary row accepts it or raises the one typed error."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.contracts.rewards.graders import NumericGrader
from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.formats import Example
from services.datasets.record import RowError
from services.datasets.training_rows import TrainingRowReader
from services.evaluator.evaluation.samples import parse_sample
from services.rewards.graders.gold import matcher

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NAME = st.text("abc_", min_size=1, max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
CHAT_KEYS = ["messages", "role", "content", "name", "weight", "text", "type", "tools", "functions"]
CALL_KEYS = ["tool_calls", "tool_call_id", "id", "function", "arguments", "parameters"]
OTHER_KEYS = [
    "instruction",
    "output",
    "system",
    "history",
    "conversations",
    "from",
    "value",
    "gold",
]
KEYS = TEXT | st.sampled_from([*CHAT_KEYS, *CALL_KEYS, *OTHER_KEYS])
WORDS = SCALARS | st.sampled_from(
    ["user", "assistant", "system", "tool", "human", "gpt", "function_call", "function", "text"]
)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=30,
)
LAYOUTS = [DataFormat.CHAT, DataFormat.ALPACA, DataFormat.SHAREGPT]
KINDS = [
    (RowKind.TEXT, DataFormat.TEXT),
    *((kind, DataFormat.AUTO) for kind in RowKind),
    *((kind, layout) for kind in RowKind if kind is not RowKind.TEXT for layout in LAYOUTS),
]


def read_row(layout: DataFormat, row: Any) -> Example:
    reader = TrainingRowReader(RowKind.DEMONSTRATION, layout)
    return reader.read(row).demonstrations[0].example


@settings(deadline=None)
@given(VALUES, st.sampled_from(KINDS))
def test_arbitrary_values_raise_only_the_typed_error(
    row: Any, read_as: tuple[RowKind, DataFormat]
) -> None:
    with contextlib.suppress(RowError):
        TrainingRowReader(*read_as).read(row)
    with contextlib.suppress(RowError):
        parse_sample(row, 0, matcher(NumericGrader()))


@settings(deadline=None)
@given(VALUES, st.sampled_from(["messages", "conversations", "instruction", "tools", "history"]))
@example(True, "messages")
def test_arbitrary_values_of_known_keys_raise_only_the_typed_error(value: Any, key: str) -> None:
    row = {
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}],
        "instruction": "a",
        "output": "b",
        key: value,
    }
    for layout in LAYOUTS:
        with contextlib.suppress(RowError):
            read_row(layout, row)


@st.composite
def exchanges(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A question, maybe calls with their answers, and the assistant's reply."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(contents())}]
    for names in draw(st.lists(st.lists(NAME, min_size=1, max_size=3), max_size=2)):
        calls = [
            {
                "id": f"call_{index}",
                "type": "function",
                "function": {"name": name, "arguments": draw(arguments())},
            }
            for index, name in enumerate(names)
        ]
        messages.append({"role": "assistant", "tool_calls": calls})
        for call in draw(st.permutations(calls)):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": draw(TEXT)})
    reply = {"role": "assistant", "content": draw(contents())}
    return [*messages, reply | draw(st.sampled_from([{}, {"weight": 1}, {"weight": None}]))]


def contents() -> st.SearchStrategy[Any]:
    """Text, or a list of text parts."""
    part = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
    return TEXT | st.lists(part, min_size=1, max_size=3)


def arguments() -> st.SearchStrategy[Any]:
    """An object, or JSON text of one."""
    objects = st.dictionaries(TEXT, SCALARS.filter(lambda value: value != float("inf")), max_size=3)
    return objects | objects.map(json.dumps)


TOOLS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.just("function"),
            "function": st.fixed_dictionaries(
                {"name": NAME},
                optional={
                    "description": TEXT,
                    "parameters": st.just({"type": "object", "properties": {}}),
                },
            ),
        }
    ),
    max_size=3,
)


@settings(deadline=None)
@given(
    st.sampled_from(
        [[], [{"role": "system", "content": "a"}], [{"role": "developer", "content": "a"}]]
    ),
    st.lists(exchanges(), min_size=1, max_size=3),
    TOOLS | TOOLS.map(json.dumps) | st.none(),
)
def test_valid_chat_rows_are_accepted(
    head: list[Any], conversation: list[list[Any]], tools: Any
) -> None:
    messages = [*head, *(message for exchange in conversation for message in exchange)]
    example = read_row(DataFormat.AUTO, {"messages": messages, "tools": tools})
    assert len(example.turns) == len(messages)
    assert example.answers == sum(message["role"] == "assistant" for message in messages)


@settings(deadline=None)
@given(
    st.lists(st.tuples(TEXT, TEXT).map(list), max_size=3) | st.none(),
    TEXT.filter(bool), TEXT | st.none(), TEXT, TEXT | st.none(),
)  # fmt: skip
def test_valid_alpaca_rows_are_accepted(
    history: Any, instruction: str, extra: str | None, output: str, system: str | None
) -> None:
    row = {"instruction": instruction, "input": extra, "output": output, "system": system}
    example = read_row(DataFormat.AUTO, {**row, "history": history})
    assert example.answers == 1 + len(history or [])


@settings(deadline=None)
@given(st.booleans(), st.lists(st.tuples(st.booleans(), TEXT, st.booleans(), TEXT), min_size=1))
def test_valid_sharegpt_rows_are_accepted(system: bool, pairs: list[Any]) -> None:
    conversations = [{"from": "system", "value": "a"}] if system else []
    for observed, question, called, answer in pairs:
        call = json.dumps({"name": answer, "arguments": {}})
        conversations += [
            {"from": "observation" if observed else "human", "value": question},
            {"from": "function_call", "value": call}
            if called
            else {"from": "gpt", "value": answer},
        ]
    example = read_row(DataFormat.AUTO, {"conversations": conversations})
    assert example.tool_calls == sum(called for _, _, called, _ in pairs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_at_the_depth_limit_is_checked(layout: DataFormat) -> None:
    deep: Any = "x"
    for _ in range(98):
        deep = [deep]
    for key in ("messages", "instruction", "conversations", "tools", "history"):
        with pytest.raises(RowError):
            read_row(layout, {key: deep})
