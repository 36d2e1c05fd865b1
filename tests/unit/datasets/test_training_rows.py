"""Rows of preferences, feedback and text."""

import json
from typing import Any

import pytest

from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.record import RowError
from services.datasets.training_rows import TrainingRow, TrainingRowReader

QUESTION = {"role": "user", "content": "1+1?"}
PAIR = {
    "input": {"messages": [QUESTION], "tools": [], "parallel_tool_calls": True},
    "preferred_output": [{"role": "assistant", "content": "2"}],
    "non_preferred_output": [{"role": "assistant", "content": "3"}],
}
RANKING = {"instruction": "1+1?", "input": "", "chosen": "2", "rejected": "3"}
SHAREGPT = {
    "conversations": [{"from": "human", "value": "1+1?"}],
    "chosen": {"from": "gpt", "value": "2"},
    "rejected": {"from": "gpt", "value": "3"},
}
JUDGED = {"messages": [QUESTION, {"role": "assistant", "content": "2"}], "label": False}


def read(row: dict[str, Any], kind: RowKind) -> TrainingRow:
    return TrainingRowReader(kind, DataFormat.AUTO).read(row)


def refused(row: dict[str, Any], kind: RowKind) -> str:
    with pytest.raises(RowError) as raised:
        read(row, kind)
    return raised.value.message


@pytest.mark.parametrize("row", [PAIR, RANKING, SHAREGPT])
def test_a_preference_in_any_format_is_two_answers_to_one_prompt(row: dict[str, Any]) -> None:
    preferred, rejected = read(row, RowKind.PREFERENCE).examples

    assert preferred.turns == [("user", "1+1?"), ("assistant", "2")]
    assert rejected.turns == [("user", "1+1?"), ("assistant", "3")]


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (PAIR, {"preferred_output": None}, "preferred_output is missing"),
        (PAIR, {"non_preferred_output": []}, "non_preferred_output must be a list of one message"),
        (
            PAIR,
            {"non_preferred_output": PAIR["preferred_output"]},
            "preferred_output[0] and non_preferred_output[0] are equal",
        ),
        (
            PAIR,
            {"preferred_output": [{"role": "assistant", "content": " "}]},
            "preferred_output[0] is an empty answer",
        ),
        (
            PAIR,
            {"preferred_output": [{"role": "assistant"}]},
            "preferred_output[0].content is missing",
        ),
        (
            PAIR,
            {"preferred_output": [QUESTION]},
            "preferred_output[0].role is 'user', not 'assistant'",
        ),
        (
            PAIR,
            {"input": {"messages": [{"role": "user"}]}},
            "input.messages[0].content is missing",
        ),
        (
            PAIR,
            {"input": {"messages": [QUESTION, {"role": "assistant", "content": "2"}]}},
            "input.messages must end before the assistant's answer",
        ),
        (RANKING, {"rejected": "2"}, "chosen and rejected are equal"),
        (RANKING, {"rejected": ""}, "rejected is an empty answer"),
        (RANKING, {"chosen": None}, "chosen is missing"),
        (SHAREGPT, {"rejected": None}, "rejected is missing"),
        (SHAREGPT, {"rejected": {"from": "gpt"}}, "rejected.value is missing"),
        (SHAREGPT, {"rejected": SHAREGPT["chosen"]}, "chosen and rejected are equal"),
        (SHAREGPT, {"kto_tag": True}, "kto_tag: this method has no use for labels"),
    ],
)
def test_an_unusable_preference_names_the_place(
    row: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    assert refused({**row, **changes}, RowKind.PREFERENCE) == message


def test_weights_of_earlier_answers_do_not_matter_to_a_preference() -> None:
    earlier = [QUESTION, {"role": "assistant", "content": "2", "weight": 0}, QUESTION]

    preferred, _ = read({**PAIR, "input": {"messages": earlier}}, RowKind.PREFERENCE).examples

    assert len(preferred.turns) == 4


@pytest.mark.parametrize(
    "row",
    [
        JUDGED,
        {"instruction": "1+1?", "output": "2", "kto_tag": False},
        {
            "conversations": [{"from": "human", "value": "1+1?"}, {"from": "gpt", "value": "2"}],
            "kto_tag": False,
        },
    ],
)
def test_feedback_in_any_format_is_an_answer_and_its_label(row: dict[str, Any]) -> None:
    given = read(row, RowKind.FEEDBACK)

    assert given.label is False
    assert given.examples[0].turns == [("user", "1+1?"), ("assistant", "2")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None}, "label and kto_tag are both missing; one must be true or false"),
        ({"kto_tag": True}, "label and kto_tag are both given; one must be true or false"),
        ({"label": "yes"}, "label is 'yes', not true or false"),
        (
            {"messages": [QUESTION, {"role": "assistant", "content": ""}]},
            "the last turn is an empty answer",
        ),
        ({"chosen": "2"}, "chosen: this method has no use for preferences"),
    ],
)
def test_unusable_feedback_names_the_place(changes: dict[str, Any], message: str) -> None:
    assert refused({**JUDGED, **changes}, RowKind.FEEDBACK) == message


def test_text_must_not_be_empty() -> None:
    assert read({"text": "abc"}, RowKind.TEXT).examples[0].turns == [("text", "abc")]
    assert refused({"text": " "}, RowKind.TEXT) == "text is empty"
    assert refused({"prompt": "abc"}, RowKind.TEXT) == "text is missing"


def test_demonstrations_refuse_what_other_methods_learn_from() -> None:
    row = {"messages": JUDGED["messages"]}
    assert refused({**row, "chosen": "2"}, RowKind.DEMONSTRATION).startswith("chosen: ")
    assert refused({**row, "label": False}, RowKind.DEMONSTRATION).startswith("label is false")


ASKED, ANSWERED = {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}
WRONG = {"role": "assistant", "content": "3"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "1+1?", "completion": "2"},
        {"prompt": [ASKED], "completion": [ANSWERED]},
        {"prompt": [ASKED], "completion": "2"},
        {"conversations": [ASKED, ANSWERED]},
        {"conversations": [{"from": "user", "value": "1+1?"}, {"from": "assistant", "value": "2"}]},
        {"messages": json.dumps([ASKED, ANSWERED])},
    ],
)
def test_a_demonstration_may_have_a_published_layout(row: dict[str, Any]) -> None:
    (example,) = read(row, RowKind.DEMONSTRATION).examples
    assert example.turns == [("user", "1+1?"), ("assistant", "2")]

    if "prompt" in row:
        judged = read({**row, "label": "False"}, RowKind.FEEDBACK)
        assert (judged.label, judged.examples[0].turns) == (False, example.turns)


@pytest.mark.parametrize(
    "row",
    [
        {"chosen": [ASKED, ANSWERED], "rejected": [ASKED, WRONG]},
        {"prompt": "1+1?", "chosen": [ASKED, ANSWERED], "rejected": [ASKED, WRONG]},
        {"prompt": "1+1?", "chosen": "2", "rejected": "3"},
        {"prompt": [ASKED], "chosen": [ANSWERED], "rejected": [WRONG]},
    ],
)
def test_a_preference_may_have_a_published_layout(row: dict[str, Any]) -> None:
    preferred, rejected = read(row, RowKind.PREFERENCE).examples

    assert preferred.turns == [("user", "1+1?"), ("assistant", "2")]
    assert rejected.turns == [("user", "1+1?"), ("assistant", "3")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": [ANSWERED], "rejected": [WRONG]}, "prompt is missing"),
        ({"chosen": [ASKED, ANSWERED], "rejected": [WRONG]}, "chosen and rejected differ before"),
        ({"prompt": "?", "chosen": "2", "rejected": 3}, "rejected is 3, not a text or messages"),
        (
            {"prompt": [ASKED], "chosen": [ANSWERED], "rejected": [ANSWERED]},
            "chosen and rejected, as messages: preferred_output[0] and non_preferred_output[0]",
        ),
    ],
)
def test_an_error_names_the_layout(row: dict[str, Any], message: str) -> None:
    assert refused(row, RowKind.PREFERENCE).startswith(message)


def test_consecutive_messages_of_one_role_are_joined_where_asked_for() -> None:
    turns = [ASKED, {**ASKED, "content": "Tell me."}, ANSWERED, ANSWERED]
    assert refused({"messages": turns}, RowKind.DEMONSTRATION).startswith("messages[1].role")

    reader = TrainingRowReader(RowKind.DEMONSTRATION, DataFormat.AUTO, joins_turns=True)
    (example,) = reader.read({"messages": turns}).examples

    assert example.turns == [("user", "1+1?\n\nTell me."), ("assistant", "2\n\n2")]
