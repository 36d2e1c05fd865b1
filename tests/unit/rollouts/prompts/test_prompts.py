"""Rows become prompts, and errors name the row and path."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import PromptType
from services.datasets.record import RowError, UnreadableFile
from services.rollouts.prompts import Prompt, inline_prompts, prompt_of_row, read_prompts

_QUESTION = {"role": "user", "content": "How many?"}


@pytest.mark.parametrize("key", ["prompt", "question"])
def test_a_question_becomes_a_user_message(key: str) -> None:
    prompt = prompt_of_row({key: "How many?", "gold": "4", "level": 2}, 7)

    assert prompt == Prompt(7, (_QUESTION,), ("4",), {"level": 2})


@pytest.mark.parametrize("prompt_type", ["qwen_retool", "qwen_search_tool"])
def test_tool_prompt_types_ask_for_a_boxed_answer_in_the_system_message(
    prompt_type: PromptType,
) -> None:
    prompt = prompt_of_row({"prompt": "How many?"}, 0, prompt_type)

    system, user = prompt.messages
    assert system["role"] == "system"
    assert "\\boxed{}" in system["content"]
    assert '"' not in system["content"]
    assert user == _QUESTION


def test_a_row_may_set_its_own_prompt_type() -> None:
    rows = [{"prompt": "a"}, {"prompt": "b", "prompt_type": "qwen_retool"}]

    plain, retool = inline_prompts(rows)

    assert [message["role"] for message in plain.messages] == ["user"]
    assert [message["role"] for message in retool.messages] == ["system", "user"]
    assert retool.extra == {}


def test_the_system_prompt_precedes_the_prompt_type_instruction() -> None:
    prompt = prompt_of_row({"prompt": "a"}, 0, "qwen_retool", "Be brief.")

    assert prompt.messages[0]["content"].startswith("Be brief.\n\n")
    assert "\\boxed{}" in prompt.messages[0]["content"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_messages_keep_their_own_system_message(role: str) -> None:
    messages = [{"role": role, "content": "Mine."}, _QUESTION]

    assert prompt_of_row({"messages": messages}, 0, "qwen_retool", "Other.").messages == (
        {"role": role, "content": "Mine."},
        _QUESTION,
    )


def test_messages_without_a_system_message_get_only_the_system_prompt() -> None:
    prompt = prompt_of_row({"messages": [_QUESTION]}, 0, "qwen_retool", "Be brief.")

    assert prompt.messages == ({"role": "system", "content": "Be brief."}, _QUESTION)


def test_content_parts_become_text_and_null_keys_are_dropped() -> None:
    parts = [{"type": "text", "text": "How "}, {"type": "text", "text": "many?"}]
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": parts, "name": None},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
    ]

    assert prompt_of_row({"messages": messages}, 0).messages == (
        _QUESTION,
        {"role": "assistant", "tool_calls": [call]},
        messages[2],
    )


@pytest.mark.parametrize(
    ("given", "gold"),
    [
        ({"gold": "4"}, ("4",)),
        ({"answer": 4}, ("4",)),
        ({"answer": 4.5}, ("4.5",)),
        ({"gold": ["four", 4]}, ("four", "4")),
        ({"gold": []}, ()),
        ({"gold": None, "answer": "4"}, ("4",)),
        ({}, ()),
    ],
)
def test_gold_answers_may_be_text_numbers_or_lists(
    given: dict[str, Any], gold: tuple[str, ...]
) -> None:
    assert prompt_of_row({"prompt": "a", **given}, 0).gold == gold


def test_an_answer_field_beside_gold_is_kept_as_extra() -> None:
    prompt = prompt_of_row({"question": "a", "gold": "4", "answer": "2 + 2 = 4"}, 0)

    assert prompt.gold == ("4",)
    assert prompt.extra == {"answer": "2 + 2 = 4"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (7, "is 7, not an object with messages, prompt or question"),
        ({}, "messages is missing"),
        ({"prompt": "a", "question": "b"}, "has both prompt and question"),
        ({"prompt": ["a"]}, r"prompt\[0\] is 'a', not an object"),
        ({"question": " "}, "question is empty"),
        ({"prompt": "a", "prompt_type": "qwen"}, "prompt_type is 'qwen'; known are plain, "),
        ({"prompt": "a", "prompt_type": ["plain"]}, "prompt_type is a list"),
        ({"messages": [_QUESTION], "prompt_type": "plain"}, "prompt_type is for rows with"),
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\].content is missing"),
        (
            {"messages": [_QUESTION, {"role": "assistant", "content": "4"}]},
            r"messages\[1\].role is 'assistant'",
        ),
        ({"prompt": "a", "gold": {"x": 1}}, "gold is an object, not a string or a number"),
        ({"prompt": "a", "answer": [True]}, r"answer\[0\] is true"),
        ({"prompt": "a", "gold": "\0"}, r"gold holds the character U\+0000"),
    ],
)
def test_a_row_error_names_the_path(row: Any, message: str) -> None:
    with pytest.raises(RowError, match=f"^{message}"):
        prompt_of_row(row, 0)


def test_an_inline_prompt_error_names_its_row() -> None:
    with pytest.raises(InvalidRequest, match=r"^prompts\[1\]: question is empty$") as raised:
        inline_prompts([{"prompt": "a"}, {"question": ""}])

    assert raised.value.param == "prompts[1]"


def test_prompt_indices_start_at_0_and_row_numbers_at_1(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": "b", "gold": 1}\n{"prompt": 3}\n')
    prompts = read_prompts(path)

    assert [next(prompts).index, next(prompts).index] == [0, 1]
    with pytest.raises(UnreadableFile, match="row 4: prompt is 3, not a string"):
        next(prompts)


def test_an_invalid_json_line_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": \n')

    with pytest.raises(UnreadableFile, match="row 2"):
        list(read_prompts(path, "qwen_retool"))


@given(
    st.dictionaries(
        st.sampled_from(["messages", "prompt", "question", "gold", "answer", "prompt_type", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["role", "content", "type", "text"]), inner)
            ),
            max_leaves=6,
        ),
    )
)
def test_any_row_becomes_a_text_prompt_or_a_row_error(row: dict[str, Any]) -> None:
    try:
        prompt = prompt_of_row(json.loads(json.dumps(row)), 0)
    except RowError:
        return
    assert all(isinstance(message.get("content", ""), str) for message in prompt.messages)
    assert "messages" not in prompt.extra


VERL = {
    "data_source": "math",
    "prompt": [_QUESTION],
    "reward_model": {"style": "rule", "ground_truth": "34"},
    "extra_info": {"index": 7},
}


def test_verl_and_mindspeed_rl_rows_are_read() -> None:
    prompt = prompt_of_row(VERL, 0, "qwen_retool", "Be brief.")

    assert prompt.messages == ({"role": "system", "content": "Be brief."}, _QUESTION)
    assert prompt.gold == ("34",)
    assert prompt.extra == {name: VERL[name] for name in VERL if name != "prompt"}


def test_search_r1_rows_are_read() -> None:
    row = {
        "question": "Who?",
        "golden_answers": ["A", "B"],
        "prompt": [_QUESTION],
        "reward_model": {"ground_truth": {"target": ["A", "B"]}, "style": "rule"},
    }
    prompt = prompt_of_row(row, 0)

    assert prompt.messages == (_QUESTION,)
    assert prompt.gold == ("A", "B")
    assert prompt.extra["question"] == "Who?"
    row.pop("golden_answers")
    assert prompt_of_row(row, 0).gold == ("A", "B")


@pytest.mark.parametrize(
    "column",
    [
        {"solution": "4"},
        {"ground_truth": "4"},
        {"reference_answer": "4"},
        {"label": 4},
        {"reward_spec": {"ground_truth": "4", "style": None}},
        {"reward_model": {"ground_truth": "4"}, "label": True},
    ],
)
def test_the_reference_answer_is_found_under_every_published_key(column: dict[str, Any]) -> None:
    assert prompt_of_row({"question": "2+2?", **column}, 0).gold == ("4",)


def test_a_judgment_is_no_reference_answer() -> None:
    assert prompt_of_row({"question": "2+2?", "label": True}, 0).gold == ()


def test_math_500_rows_are_read() -> None:
    row = {"problem": "1 + 1?", "solution": "It is 2.", "answer": "2", "level": 1}
    prompt = prompt_of_row(row, 0)

    assert prompt.messages == ({"role": "user", "content": "1 + 1?"},)
    assert prompt.gold == ("2",)
    assert prompt.extra == {"solution": "It is 2.", "level": 1}


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("48 / 2 = <<48/2=24>>24\n48 + 24 = 72\n#### 72", "72"),
        ("#### 1,234", "1234"),
        ("#### $1,234.50", "$1234.50"),
        ("#### (1,2)", "(1,2)"),
        ("x\n####  -5 \n", "-5"),
        ("C #### 72", "C #### 72"),
        ("#### 1\nand more", "#### 1\nand more"),
    ],
)
def test_the_gold_of_a_worked_solution_is_its_final_answer(answer: str, gold: str) -> None:
    assert prompt_of_row({"question": "q", "answer": answer}, 0).gold == (gold,)
