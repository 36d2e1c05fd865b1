"""What follows a turn depends on how it ended."""

from pathlib import Path

import pytest

from services.contracts.training.offline import (
    OfflineHyperparameters,
    RewardModelHyperparameters,
)
from services.contracts.training.preference_optimization import DpoHyperparameters
from services.contracts.training.rows import DataFormat
from services.rollouts.chat.examples import ExampleReader, load_encoder
from tests.support.chat_templates.conversation import TOOLS, Conversation, ToolTurn, call
from tests.support.chat_templates.families import FAMILIES
from tests.unit.rollouts.chat.conftest import Opened, Template

_TURN = ToolTurn([call(0, "a")], ["b"])
_CONVERSATION = Conversation([_TURN])


def test_a_cut_off_turn_gets_its_missing_end_token(opened_family: Opened) -> None:
    """Cut off by length or a stop string: the model sampled no end-of-turn token."""
    written = opened_family.ids(_TURN.written(opened_family.family))[:-1]
    prompt = opened_family.chat.prompt(_CONVERSATION.before, TOOLS)

    tokens = prompt + written + opened_family.chat.replies(written, ["b"])

    assert tokens == opened_family.chat.prompt(_CONVERSATION.messages(), TOOLS)


def test_a_turn_with_an_alternative_end_token_gets_no_second_one(opened_family: Opened) -> None:
    ends = opened_family.family.ends
    text = _TURN.written(opened_family.family).removesuffix(ends[0])
    usual = opened_family.chat.replies(opened_family.ids(text + ends[0]), ["b"])

    for other in ends[1:]:
        assert opened_family.chat.replies(opened_family.ids(text + other), ["b"]) == usual


def test_the_newline_after_the_end_token_is_kept(qwen3: Opened) -> None:
    written = qwen3.ids(_TURN.written(qwen3.family))

    assert qwen3.chat.text(qwen3.chat.replies(written, ["b"])).startswith("\n<|im_start|>user\n")


def test_stop_tokens_come_from_template_tokenizer_and_configuration(
    opened_family: Opened,
) -> None:
    ids = [opened_family.tokenizer.token_to_id(text) for text in opened_family.family.ends]

    assert list(opened_family.chat.stop_token_ids) == ids


def test_special_tokens_are_kept_in_turn_text(opened_family: Opened) -> None:
    written = _TURN.written(opened_family.family)

    assert opened_family.chat.text(opened_family.ids(written)) == written


@pytest.mark.parametrize(
    ("settings", "end"),
    [(RewardModelHyperparameters(), "Paris"), (DpoHyperparameters(), "Paris<|im_start|>")],
)
def test_an_answer_without_an_end_is_trained_with_the_next_marker_unless_it_is_scored(
    settings: OfflineHyperparameters, end: str, tmp_path: Path
) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    (folder / "chat_template.jinja").write_text(
        "{% for each in messages %}<|im_start|>{{ each.role }}\n{{ each.content }}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    reader = ExampleReader(folder, load_encoder(folder), settings, DataFormat.AUTO)

    row = reader.read(
        {
            "input": {"messages": [{"role": "user", "content": "Capital?"}]},
            "preferred_output": [{"role": "assistant", "content": "Paris"}],
            "non_preferred_output": [{"role": "assistant", "content": "Rome"}],
        }
    )

    text = "".join(token.text for token in row.usable[0].tokens.tokens)
    assert text.endswith(f"assistant\n{end}")


@pytest.mark.parametrize("name", ["qwen2_5", "llama3_1"])
def test_invalid_utf8_is_decoded_with_replacement_characters(
    families: dict[str, Opened], name: str
) -> None:
    opened = families[name]
    first_byte_of_a_character = opened.ids("🙂")[0]
    turn = [first_byte_of_a_character, *opened.ids("a" + opened.family.ends[0])]

    assert opened.chat.text(turn) == f"\ufffda{opened.family.ends[0]}"
    assert opened.chat.replies(turn, ["b"]) == opened.chat.replies(turn[1:], ["b"])


def test_unknown_token_ids_decode_to_nothing(opened_family: Opened) -> None:
    """Embeddings are often padded beyond the size of the vocabulary."""
    assert opened_family.chat.text([100_000]) == ""


def test_calls_without_usable_ids_get_ids_of_mistral_length(families: dict[str, Opened]) -> None:
    mistral = families["mistral"]
    turn = mistral.ids('[TOOL_CALLS] [{"name": "python", "arguments": {}, "id": "short"}]</s>')

    assert '"call_id": "call00000"' in mistral.chat.text(mistral.chat.replies(turn, ["b"]))


_GLM = """
{%- for m in messages -%}
{%- if m.role == 'tool' -%}<|im_end|>{{ m.content }}
{%- elif m.role == 'user' -%}<|im_start|>{{ m.content }}
{%- else -%}<|endoftext|>{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}
{%- endfor -%}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|endoftext|>{%- endif -%}
"""
# Like GLM: the token that begins the next turn ends this one, here <|im_end|> for a tool's.


def test_without_an_end_token_the_next_turns_header_is_not_doubled(
    qwen3: Opened, template: Template
) -> None:
    chat = template(_GLM)
    asked = [{"role": "user", "content": "q"}]
    answered = {"role": "assistant", "content": "call"}
    whole = chat.prompt([*asked, answered, {"role": "tool", "content": "b"}], [])

    stopped = qwen3.ids("call<|im_end|>")
    assert chat.prompt(asked, []) + stopped + chat.replies(stopped, ["b"]) == whole
    cut = qwen3.ids("call")
    assert chat.prompt(asked, []) + cut + chat.replies(cut, ["b"]) == whole


_DEEPSEEK = (
    "{% for m in messages %}{{ m.role }}: {{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name + ' ' + c.function.arguments }}{% endfor %}\n{% endfor %}"
)


@pytest.mark.parametrize("arguments", ['{"a": 1}', {"a": 1}])
def test_a_template_may_expect_arguments_as_text(template: Template, arguments: object) -> None:
    function = {"name": "f", "arguments": arguments}
    called = {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}
    chat = template(_DEEPSEEK)

    text = chat.text(chat.prompt([{"role": "user", "content": "q"}, called], []))

    assert 'assistant: f {"a": 1}' in text
