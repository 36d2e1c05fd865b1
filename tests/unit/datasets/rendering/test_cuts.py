"""Prompt and answer are cut between tokens, for templates of every kind."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.datasets.conversation import Conversation, Message, ToolCall
from services.datasets.rendering.exchanges import (
    Exchange,
    as_chat_message,
    render,
    render_answer,
    render_messages,
    render_pair,
)
from services.datasets.rendering.missing_parts import missing_parts
from services.datasets.rendering.training_tokens import encoded_parts
from tests.support.models.template_kinds import (
    KINDS,
    SPECIAL,
    WITHOUT_CALLS,
    WITHOUT_CONTENT,
    Rendered,
    encoder,
)

TEXTS = st.one_of(
    st.sampled_from(["<b>4</b>", "\n\nx", " x", "<tool_call> is a tag", "\t", "é\u0301 日本", "0"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
)
WORDS = st.text("abcxyz", min_size=1, max_size=8)
CALLS = st.lists(
    st.builds(ToolCall, WORDS, st.dictionaries(WORDS, st.one_of(TEXTS, st.integers()), max_size=2)),
    max_size=2,
).map(tuple)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    messages = [Message("system", draw(TEXTS))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(Message("user", draw(TEXTS)))
        if calls := draw(CALLS):
            content, thought = draw(TEXTS), draw(TEXTS)
            messages.append(Message("assistant", content, thought, calls, learned=True))
            messages += [Message("tool", draw(TEXTS)) for _ in calls]
        content = draw(WORDS) + draw(TEXTS)
        is_learned = draw(st.booleans())
        messages.append(Message("assistant", content, draw(TEXTS), learned=is_learned))
    messages[-1] = Message("assistant", messages[-1].content, messages[-1].reasoning, learned=True)
    return Conversation(tuple(messages))


def assert_between_tokens(exchanges: Sequence[Exchange]) -> None:
    text = "".join(each.context + each.response for each in exchanges)
    whole = encoder()(text)
    parts = encoded_parts(exchanges, encoder())
    assert [token for part in parts for token in part.ids] == whole.ids
    place = 0
    for each in exchanges:
        place += len(each.context)
        assert whole.is_boundary(place), (text, place)
        assert each.response
        place += len(each.response)


@pytest.mark.parametrize("kind", KINDS)
@given(conversation=conversations())
def test_no_token_lies_across_the_beginning_of_an_answer(
    kind: str, conversation: Conversation
) -> None:
    template = Rendered(KINDS[kind])

    examples = list(render(conversation, template, encoder()))

    for exchanges in examples:
        assert_between_tokens(exchanges)
    learned = [turn for turn, each in enumerate(conversation.messages) if each.learned]
    exchanges = [exchange for example in examples for exchange in example]
    assert len(exchanges) == len(learned)
    messages = [as_chat_message(message) for message in conversation.messages]
    begin = 0
    for example in examples:
        context = ""
        for exchange, turn in zip(example, learned[begin : begin + len(example)], strict=True):
            context += exchange.context
            prompt = messages[:turn]
            if exchange.is_served and kind != "arguments as text":
                assert context == template(prompt, [], prompt=True)
            context += exchange.response
        begin += len(example)


@pytest.mark.parametrize("kind", KINDS)
@given(conversation=conversations())
def test_what_a_template_shows_is_not_missing(kind: str, conversation: Conversation) -> None:
    if kind == "thought opened by the prompt":  # it shows no reasoning
        messages = (replace(message, reasoning="") for message in conversation.messages)
        conversation = Conversation(tuple(messages))

    examples = list(render(conversation, Rendered(KINDS[kind]), encoder()))

    assert [each for each in missing_parts(conversation, examples) if each.is_learned] == []


CALLING = Conversation(
    (
        Message("user", "What is the weather?"),
        Message(
            "assistant",
            "",
            "",
            (ToolCall("get_weather", {"city": "Paris", "days": 3}),),
            learned=True,
        ),
        Message("tool", "sunny"),
        Message("assistant", "It is sunny.", "The tool says so.", learned=True),
    )
)


def lost(template: str, conversation: Conversation) -> list[tuple[int | None, str, str]]:
    examples = list(render(conversation, Rendered(template), encoder()))
    return [
        (each.turn, each.part.value, each.sample) for each in missing_parts(conversation, examples)
    ]


def test_calls_that_a_template_drops_are_missing() -> None:
    assert lost(WITHOUT_CALLS, CALLING) == [
        (1, "call", "get_weather"),
        (1, "argument", "city"),
        (1, "argument", "Paris"),
        (1, "argument", "days"),
        (1, "argument", "3"),
        (3, "reasoning", "The tool says so."),
    ]


def test_every_word_may_be_missing() -> None:
    turns = Conversation((Message("user", "Ask."), Message("assistant", "Say.", learned=True)))

    assert lost(WITHOUT_CONTENT, turns) == [(0, "content", "Ask."), (1, "content", "Say.")]


def test_a_thought_inside_the_content_may_be_missing() -> None:
    template = KINDS["plain"].replace("m.content", "m.content.split('</think>')[-1]")
    content = "<think>\nBecause of tools.\n</think>\n\nYes."
    turns = Conversation((Message("user", "Ask."), Message("assistant", content, learned=True)))

    assert lost(template, turns) == [(1, "reasoning", "Because of tools.")]
    assert lost(KINDS["plain"], turns) == []


@pytest.mark.parametrize("content", ["<b>4</b>", ""])
def test_an_answer_begins_behind_the_header_where_the_prompt_opens_a_thought(content: str) -> None:
    calls = () if content else (ToolCall("add", {}),)
    turns = Conversation(
        (Message("user", "2+2?"), Message("assistant", content, "", calls, learned=True))
    )

    ((exchange,),) = render(turns, Rendered(KINDS["thought opened by the prompt"]), encoder())

    assert exchange.context.endswith("<|start|>assistant\n")
    assert exchange.response.startswith(content or "<tool_call>")
    assert exchange.response.endswith("<|end|>")
    assert not exchange.is_served


def test_the_marker_of_the_next_role_is_trained_where_it_ends_the_turn() -> None:
    ((call, answer),) = render(CALLING, Rendered(KINDS["next role ends the turn"]), encoder())

    assert call.response.endswith("</tool_call><|tool|>")
    assert answer.response.endswith("It is sunny.<|user|>")


def test_a_scored_answer_ends_where_a_conversation_that_ends_with_it_does() -> None:
    template = Rendered(KINDS["next role ends the turn"])
    answers = [
        Conversation((Message("user", "Ask."), Message("assistant", text, learned=True)))
        for text in ("Paris", "Rome")
    ]
    whole = [render_messages(each, template, prompt=False).rstrip() for each in answers]

    chosen, rejected = answers
    scored = render_pair(chosen, rejected, template, encoder(), is_scored=True)
    learned = render_pair(chosen, rejected, template, encoder())

    assert [each.context + each.response for each in scored] == whole
    assert [each.context + each.response for each in learned] == [f"{t}<|user|>" for t in whole]


def test_a_template_without_special_tokens_has_no_end_to_train() -> None:
    (exchanges,) = render(CALLING, Rendered(KINDS["no special tokens"]), encoder())

    assert not any(exchange.response.endswith(SPECIAL) for exchange in exchanges)


def test_a_context_is_what_serving_sends_where_the_answer_changes_it() -> None:
    system_with_last_question = (
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>"
        "{% if loop.last and messages[0].role == 'system' %}{{ messages[0].content }}\n{% endif %}"
        "{{ m.content }}<|assistant|>{% elif m.role == 'assistant' %}{{ m.content }}<|end|>"
        "{% endif %}{% endfor %}"
    )
    template = Rendered(system_with_last_question)
    messages = (
        Message("system", "Be brief."),
        Message("user", "a"),
        Message("assistant", "A", learned=True),
        Message("user", "b"),
        Message("assistant", "B", learned=True),
    )

    examples = list(render(Conversation(messages), template, encoder()))

    assert examples == [
        [Exchange("<|user|>Be brief.\na<|assistant|>", "A<|end|>")],
        [Exchange("<|user|>a<|assistant|>A<|end|><|user|>Be brief.\nb<|assistant|>", "B<|end|>")],
    ]


@given(
    context=conversations(),
    answers=st.tuples(WORDS, TEXTS, TEXTS).filter(lambda each: each[1] != each[2]),
    kind=st.sampled_from(list(KINDS)),
)
def test_both_answers_of_a_pair_follow_the_same_tokens(
    context: Conversation, answers: tuple[str, str, str], kind: str
) -> None:
    before = context.messages[:-1]
    first, second = (
        Conversation((*before, Message("assistant", text, "why" + text, learned=True)))
        for text in (answers[0] + answers[1], answers[0] + answers[2])
    )
    template = Rendered(KINDS[kind])

    pair = render_pair(first, second, template, encoder())

    sources = [encoded_parts([each], encoder())[0].ids for each in pair]
    assert sources[0] == sources[1]
    for each, turns in zip(pair, (first, second), strict=True):
        alone = render_answer(turns, template, encoder())
        assert each.context + each.response == alone.context + alone.response
        assert_between_tokens([each])
