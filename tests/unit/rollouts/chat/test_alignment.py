"""A canonical rollout has the same tokens as the rendered conversation."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from services.rollouts.parsers import parser_of
from tests.support.chat_templates.conversation import TOOLS, Conversation, ToolTurn, call
from tests.unit.rollouts.chat.conftest import Opened

_REPLIES = ("1267650600228229401496703205376\n", "  two lines,\n\n\nünd 漢字 🙂\t", "")
_SEVERAL_TURNS = Conversation(
    [
        ToolTurn([call(number, "print(2 ** 100)\n")], [reply])
        for number, reply in enumerate(_REPLIES)
    ]
)
_PARALLEL = Conversation([ToolTurn([call(0, "a"), call(1, 'b = "é"')], ["one", "two\n"])])
_WITH_WORDS = Conversation([ToolTurn([call(0, "a")], ["b"], text="Let me compute it:")])


def played(opened: Opened, conversation: Conversation) -> list[int]:
    """The tokens of a rollout with canonical turns, up to the model's last turn."""
    tokens = opened.chat.prompt(conversation.before, TOOLS)
    for turn in conversation.turns:
        written = opened.ids(turn.written(opened.family))
        tokens += written + opened.chat.replies(written, turn.replies)
    return tokens


def test_multi_turn_tokens_match_the_rendered_conversation(
    opened_family: Opened,
) -> None:
    tokens = played(opened_family, _SEVERAL_TURNS)

    assert tokens == opened_family.chat.prompt(_SEVERAL_TURNS.messages(), TOOLS)


def test_the_last_turn_continues_the_rendered_conversation(opened_family: Opened) -> None:
    conversation = _SEVERAL_TURNS
    blank = " " if opened_family.family.name == "mistral" else ""
    thought = "<think>\n\n</think>\n\n" if opened_family.family.name == "qwen3" else ""
    answer = f"{thought}{blank}{conversation.answer}{opened_family.family.ends[0]}"
    # Tokenizers with ▁ double a leading space of a text; the model samples only one.
    sampled = opened_family.ids(opened_family.family.ends[0] + answer)[1:]

    tokens = played(opened_family, conversation) + sampled

    message = {"role": "assistant", "content": conversation.answer}
    rendered = opened_family.chat.prompt([*conversation.messages(), message], TOOLS)
    assert rendered[: len(tokens)] == tokens


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "mistral"])
def test_parallel_replies_are_rendered_in_call_order(
    families: dict[str, Opened], name: str
) -> None:
    tokens = played(families[name], _PARALLEL)

    assert tokens == families[name].chat.prompt(_PARALLEL.messages(), TOOLS)


def test_a_single_call_template_still_renders_every_reply(families: dict[str, Opened]) -> None:
    llama = families["llama3_1"]
    turn = llama.ids(_PARALLEL.turns[0].written(llama.family))

    text = llama.chat.text(llama.chat.replies(turn, ["one", "two"]))

    assert text.count("ipython") == 2
    assert text.index('"one"') < text.index('"two"') < text.index("assistant")


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3"])
def test_text_before_a_call_is_kept(families: dict[str, Opened], name: str) -> None:
    tokens = played(families[name], _WITH_WORDS)

    assert tokens == families[name].chat.prompt(_WITH_WORDS.messages(), TOOLS)


def test_qwen3_keeps_reasoning_after_the_last_question(qwen3: Opened) -> None:
    turns = [ToolTurn([call(n, "a")], ["b"], thought=f"Thought {n}.") for n in range(3)]
    conversation = Conversation(turns)

    tokens = played(qwen3, conversation)

    assert tokens == qwen3.chat.prompt(conversation.messages(), TOOLS)
    assert all(f"Thought {number}." in qwen3.chat.text(tokens) for number in range(3))


def test_qwen3_drops_reasoning_once_another_question_follows(qwen3: Opened) -> None:
    """Equality holds within one question, and a rollout contains only one."""
    conversation = Conversation([ToolTurn([call(0, "a")], ["b"], thought="Once.")])
    asked_again = [*conversation.messages(), {"role": "user", "content": "And now?"}]

    tokens = played(qwen3, conversation)

    rendered = qwen3.chat.prompt(asked_again, TOOLS)
    assert rendered[: len(tokens)] != tokens
    assert "Once." not in qwen3.chat.text(rendered)


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "llama3_1"])
def test_non_canonical_text_is_kept_as_sampled(families: dict[str, Opened], name: str) -> None:
    opened = families[name]
    text = ToolTurn([call(0, "print")], ["b"]).written(opened.family)
    canonical = opened.ids(text)
    noncanonical = [
        *(token for letter in text[:-12] for token in opened.ids(letter)),
        *canonical[-3:],
    ]

    assert noncanonical[:-3] != canonical[:-3]
    assert opened.chat.replies(noncanonical, ["b"]) == opened.chat.replies(canonical, ["b"])


def test_rendered_calls_are_read_by_the_family_parser(opened_family: Opened) -> None:
    turn = _SEVERAL_TURNS.turns[0]
    text = opened_family.chat.text(opened_family.ids(turn.written(opened_family.family)))

    parsed = parser_of(opened_family.family.parser).parse(text, TOOLS)

    assert [read.arguments for read in parsed.calls] == [turn.calls[0]["function"]["arguments"]]


_TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=60)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(replies=st.lists(_TEXTS, min_size=1, max_size=3), code=_TEXTS)
def test_any_reply_matches_the_rendered_conversation(
    opened_family: Opened, replies: list[str], code: str
) -> None:
    added = opened_family.tokenizer.get_added_tokens_decoder().values()
    assume(not any(token.content in text for token in added for text in (*replies, code)))
    turns = [ToolTurn([call(n, code)], [reply]) for n, reply in enumerate(replies)]
    conversation = Conversation(turns)

    tokens = played(opened_family, conversation)

    assert tokens == opened_family.chat.prompt(conversation.messages(), TOOLS)
