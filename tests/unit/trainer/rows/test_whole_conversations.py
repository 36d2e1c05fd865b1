"""Arguments about the turns of a conversation that a template makes several examples of."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.conversation import ConversationReader
from services.datasets.rendering.rows import RenderedRow, RowRenderer
from services.datasets.rendering.training_tokens import TokenSettings
from services.trainer.offline.rows.examples import (
    RENDERED,
    ExampleLayout,
    ExampleReader,
    Rendering,
)
from tests.unit.trainer.chatml import Characters, chat_rows, chatml, forgetful

TOKENS = TokenSettings(cutoff=4096)
THREE = {
    "messages": [
        {"role": "user", "content": "A?"},
        {"role": "assistant", "content": "FIRST"},
        {"role": "user", "content": "B?"},
        {"role": "assistant", "content": "SECOND"},
        {"role": "user", "content": "C?"},
        {"role": "assistant", "content": "THIRD"},
    ]
}


def rendered(row: dict[str, Any], **settings: bool) -> RenderedRow:
    renderer = RowRenderer(
        RowKind.DEMONSTRATION, forgetful, Characters(), replace(TOKENS, **settings)
    )
    return renderer.render(
        row, ConversationReader(RowKind.DEMONSTRATION, DataFormat.AUTO).read(row)
    )


def trained(row: RenderedRow) -> list[str]:
    """The text with a loss of each sequence."""
    return [
        "".join(
            token.text
            for token, has_loss in zip(each.tokens.tokens, each.tokens.mask, strict=True)
            if has_loss
        )
        for each in row.usable
    ]


def test_without_them_every_turn_is_an_example_of_its_own() -> None:
    assert trained(rendered(THREE)) == [
        f"<think></think>{word}[end]" for word in ("FIRST", "SECOND", "THIRD")
    ]


def test_mask_history_trains_the_last_turn_of_the_conversation_alone() -> None:
    assert trained(rendered(THREE, mask_history=True)) == ["<think></think>THIRD[end]"]


def test_train_on_prompt_trains_every_turn_of_the_conversation_once() -> None:
    (text,) = trained(rendered(THREE, train_on_prompt=True))

    assert [text.count(word) for word in ("A?", "FIRST", "B?", "SECOND", "C?", "THIRD")] == [1] * 6


@given(chat_rows())
def test_history_is_masked_alike_by_templates_that_append_and_that_rewrite(
    row: dict[str, Any],
) -> None:
    settings = replace(TOKENS, mask_history=True)
    last = row["messages"][-1]["content"]
    for template, opening in ((chatml, ""), (forgetful, "<think></think>")):
        renderer = RowRenderer(RowKind.DEMONSTRATION, template, Characters(), settings)
        read = ConversationReader(RowKind.DEMONSTRATION, DataFormat.AUTO).read(row)

        assert trained(renderer.render(row, read)) == [f"{opening}{last}[end]"]


def test_the_library_gets_one_row_of_the_conversation() -> None:
    for settings in (replace(TOKENS, mask_history=True), replace(TOKENS, train_on_prompt=True)):
        layout = ExampleLayout(RENDERED, Rendering(forgetful, Characters(), settings))

        (row,) = ExampleReader(RowKind.DEMONSTRATION, DataFormat.AUTO, layout).read(THREE).rows

        assert row["conversations"][-1]["value"].endswith("THIRD[end]")


@pytest.mark.parametrize(
    ("settings", "missing"),
    [({}, []), ({"mask_history": True}, []), ({"train_on_prompt": True}, ["why FIRST"])],
)
def test_reasoning_that_is_in_no_example_is_missing_where_earlier_turns_are_learned(
    settings: dict[str, bool], missing: list[str]
) -> None:
    messages = [dict(each) for each in THREE["messages"]]
    messages[1]["reasoning_content"] = "why FIRST"

    found = rendered({"messages": messages}, **settings).missing

    assert [each.sample for each in found] == missing
    assert all(each.is_learned for each in found)
