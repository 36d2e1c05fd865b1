from typing import Any

import pytest
from hypothesis import given

from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.conversation import Conversation, ConversationReader, Message
from services.datasets.record import RowError
from services.datasets.rendering.exchanges import Exchange, as_chat_message, render
from services.trainer.offline.rows.alternation import alternate

from .chatml import Characters, chat_rows, chatml, forgetful


def read_conversation(data_format: DataFormat, row: dict[str, Any]) -> Conversation:
    """The conversation of a demonstration."""
    reader = ConversationReader(RowKind.DEMONSTRATION, data_format)
    return reader.read(row).conversations[0]


def conversation(*messages: Message) -> Conversation:
    return Conversation(messages)


def test_a_conversation_is_split_into_context_and_learned_text() -> None:
    examples = list(
        render(
            conversation(
                Message("system", "Be brief."),
                Message("user", "1+1?"),
                Message("assistant", "2", learned=True),
                Message("user", "2+2?"),
                Message("assistant", "4", learned=True),
            ),
            chatml,
            Characters(),
        )
    )

    assert examples == [
        [
            Exchange("[system]\nBe brief.[end]\n[user]\n1+1?[end]\n[assistant]\n", "2[end]"),
            Exchange("\n[user]\n2+2?[end]\n[assistant]\n", "4[end]"),
        ]
    ]


def test_a_turn_without_loss_becomes_context() -> None:
    examples = list(
        render(
            conversation(
                Message("user", "a"),
                Message("assistant", "bad"),
                Message("user", "b"),
                Message("assistant", "good", learned=True),
            ),
            chatml,
            Characters(),
        )
    )

    assert [[exchange.response for exchange in example] for example in examples] == [["good[end]"]]
    assert "bad[end]" in examples[0][0].context


def test_a_template_that_drops_earlier_reasoning_yields_one_example_per_turn() -> None:
    examples = list(
        render(
            conversation(
                Message("user", "a"),
                Message("assistant", "A", reasoning="why A", learned=True),
                Message("user", "b"),
                Message("assistant", "B", reasoning="why B", learned=True),
            ),
            forgetful,
            Characters(),
        )
    )

    assert examples == [
        [Exchange("[user]\na[end]\n[assistant]\n", "<think>why A</think>A[end]")],
        [
            Exchange(
                "[user]\na[end]\n[assistant]\nA[end]\n[user]\nb[end]\n[assistant]\n",
                "<think>why B</think>B[end]",
            )
        ],
    ]


def test_a_think_tag_opened_by_the_prompt_is_dropped_if_history_lacks_it() -> None:
    def thinking(
        messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        return chatml(messages, tools, prompt=prompt) + ("<think>\n" if prompt else "")

    turns = conversation(Message("user", "a"), Message("assistant", "A", learned=True))

    ((exchange,),) = render(turns, thinking, Characters())
    assert exchange == Exchange("[user]\na[end]\n[assistant]\n", "A[end]", is_served=False)


@given(chat_rows())
def test_every_answer_is_learned_once_as_rendered_for_serving(row: dict[str, Any]) -> None:
    turns = read_conversation(DataFormat.CHAT, row)
    messages = [as_chat_message(message) for message in turns.messages]
    whole = chatml(messages, list(turns.tools), prompt=False)

    (example,) = render(turns, chatml, Characters())

    assert "".join(e.context + e.response for e in example) == whole.rstrip()
    answers = [message for message in turns.messages if message.role == "assistant"]
    for exchange, answer in zip(example, answers, strict=True):
        assert exchange.context.endswith("[assistant]\n")
        assert exchange.response.startswith(answer.content)
        assert exchange.response.endswith("[end]")


@given(chat_rows())
def test_named_templates_receive_alternating_turns(row: dict[str, Any]) -> None:
    _, turns = alternate(read_conversation(DataFormat.CHAT, row), "\n")

    kinds = [turn["from"] in {"gpt", "function_call"} for turn in turns]
    assert kinds == [index % 2 == 1 for index in range(len(turns))]


def test_parallel_tool_results_become_one_turn() -> None:
    row = {
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": name,
                        "type": "function",
                        "function": {"name": name, "arguments": '{"x": "é"}'},
                    }
                    for name in "ab"
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "assistant", "content": "3"},
        ]
    }

    _, turns = alternate(read_conversation(DataFormat.CHAT, row), " | ")

    assert turns[1] == {
        "from": "function_call",
        "value": 'Let me see.\n<tool_call>[{"name": "a", "arguments": {"x": "é"}}, '
        '{"name": "b", "arguments": {"x": "é"}}]</tool_call>',
    }
    assert turns[2] == {"from": "observation", "value": "1 | 2"}


def test_named_templates_cannot_skip_a_turn() -> None:
    turns = conversation(
        Message("user", "a"),
        Message("assistant", "bad"),
        Message("user", "b"),
        Message("assistant", "good", learned=True),
    )

    with pytest.raises(RowError, match="weight 0"):
        alternate(turns, "\n")
