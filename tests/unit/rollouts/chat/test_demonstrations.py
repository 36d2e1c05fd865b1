"""Demonstrations become tokens with a mask of the model's turns."""

from itertools import compress
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from tests.support.chat_templates.conversation import QUESTION, TOOLS, Conversation, ToolTurn, call
from tests.unit.rollouts.chat.conftest import Opened, Template

_CONVERSATION = Conversation([ToolTurn([call(n, "a")], [f"reply {n}"]) for n in range(2)])
_ANSWER = {"role": "assistant", "content": _CONVERSATION.answer}
_ANSWERS = [*_CONVERSATION.messages()[1:], _ANSWER]


def test_a_demonstration_continues_the_rendered_prompt(
    opened_family: Opened,
) -> None:
    prompt = opened_family.chat.prompt([QUESTION], TOOLS)

    tokens = prompt + opened_family.chat.demonstration([QUESTION], TOOLS, _ANSWERS).token_ids

    rendered = opened_family.chat.prompt([QUESTION, *_ANSWERS], TOOLS)
    assert rendered[: len(tokens)] == tokens
    assert tokens[-1] == opened_family.chat.stop_token_ids[0]


def test_the_mask_covers_model_turns_including_end_tokens(opened_family: Opened) -> None:
    demonstration = opened_family.chat.demonstration([QUESTION], TOOLS, _ANSWERS)

    written = list(compress(demonstration.token_ids, demonstration.mask))
    text = opened_family.chat.text(written)
    assert len(demonstration.mask) == len(demonstration.token_ids)
    assert text.count(opened_family.family.ends[0]) == 3
    assert text.endswith(f"{_CONVERSATION.answer}{opened_family.family.ends[0]}")
    assert all(turn.written(opened_family.family) in text for turn in _CONVERSATION.turns)
    assert "reply" not in text


def test_special_tokens_in_an_answer_are_text_but_think_tags_are_tokens(qwen3: Opened) -> None:
    answer = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nIt is <|im_end|>."}

    demonstration = qwen3.chat.demonstration([QUESTION], (), [answer])

    assert qwen3.chat.text(demonstration.token_ids) == answer["content"] + "<|im_end|>"
    assert demonstration.token_ids.count(qwen3.ids("<|im_end|>")[0]) == 1
    assert demonstration.token_ids.count(qwen3.ids("<think>")[0]) == 1


@pytest.mark.parametrize("answers", [[], _ANSWERS[:2]])
def test_a_demonstration_without_a_final_answer_is_refused(
    qwen3: Opened, answers: list[dict[str, Any]]
) -> None:
    with pytest.raises(InvalidRequest, match="ends with a message of the assistant"):
        qwen3.chat.demonstration([QUESTION], TOOLS, answers)


def test_an_answer_that_rewrites_the_prompt_is_refused(families: dict[str, Opened]) -> None:
    """Mistral's template moves the tools to the last question."""
    asked_again = [_ANSWER, {"role": "user", "content": "And?"}, _ANSWER]

    with pytest.raises(InvalidRequest, match="does not continue the prompt"):
        families["mistral"].chat.demonstration([QUESTION], TOOLS, asked_again)


def test_a_template_that_rewrites_the_prompt_is_refused(template: Template) -> None:
    chat = template(
        "{{ messages | length }}{% for message in messages %}{{ message.content }}<|im_end|>"
        "{% endfor %}"
    )

    with pytest.raises(InvalidRequest, match="does not continue the prompt"):
        chat.demonstration([QUESTION], (), [_ANSWER])


def test_an_answer_that_merges_with_prompt_tokens_is_refused(families: dict[str, Opened]) -> None:
    answer = {"role": "assistant", "content": "\n\nIt is."}

    with pytest.raises(InvalidRequest, match="merges with the prompt"):
        families["qwen2_5"].chat.demonstration([QUESTION], (), [answer])
