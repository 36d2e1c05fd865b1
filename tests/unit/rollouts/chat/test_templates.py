"""Templates render as in transformers, and their refusals are reported."""

import pytest

from services.contracts.errors import InvalidRequest
from services.rollouts.chat.conversations import ChatTokens
from tests.support.chat_templates.conversation import QUESTION, TOOLS
from tests.unit.rollouts.chat.conftest import Opened, Template

_LOOP = "{% for message in messages %}"
_END = "{{ '<|im_end|>' }}{% endfor %}"


def rendered(chat: ChatTokens, *contents: str) -> str:
    return chat.text(chat.prompt([{"role": "user", "content": text} for text in contents], ()))


def test_generation_blocks_render_their_content(template: Template) -> None:
    source = _LOOP + "{% generation %}{{ message.content }}{% endgeneration %}" + _END

    assert rendered(template(source), "a", "b") == "a<|im_end|>b<|im_end|>"


def test_loop_controls_and_block_trimming_are_supported(template: Template) -> None:
    source = f"{_LOOP}\n  {{% if loop.index > 1 %}}\n    {{% break %}}\n  {{% endif %}}\nx{_END}"

    assert rendered(template(source), "a", "b") == "x<|im_end|>"


def test_tojson_escapes_neither_html_nor_non_ascii(template: Template) -> None:
    assert rendered(template(_LOOP + "{{ message.content | tojson }}" + _END), "<é&'>") == (
        '"<é&\'>"<|im_end|>'
    )


def test_strftime_now_is_supported(template: Template) -> None:
    text = rendered(template(_LOOP + "{{ strftime_now('%Y') }}" + _END), "a")

    assert text.removesuffix("<|im_end|>").isdigit()


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no such role') }}",
        "{{ 'no such role' + 1 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
    ],
)
def test_a_template_error_is_reported_for_the_model(template: Template, source: str) -> None:
    chat = template(_LOOP + "{{ message.content }}" + _END + source)

    with pytest.raises(InvalidRequest, match="chat template refuses the conversation") as raised:
        chat.prompt([QUESTION], ())

    assert raised.value.param == "model"


@pytest.mark.parametrize(
    ("for_tools", "reason"),
    [("", "it omits them"), ("{{ raise_exception('No tools here.') }}", "No tools here.")],
)
def test_tools_are_refused_if_the_template_cannot_render_tool_replies(
    template: Template, for_tools: str, reason: str
) -> None:
    written = f"{{% if message.role == 'tool' %}}{for_tools}{{% else %}}{{{{ message.content }}}}"
    chat = template(_LOOP + written + "{% endif %}" + _END)

    with pytest.raises(InvalidRequest, match=f"cannot render tool replies: .*{reason}"):
        chat.prompt([QUESTION], TOOLS)
    assert chat.prompt([QUESTION], ())


def test_a_template_without_calls_renders_replies_after_the_content(
    template: Template,
) -> None:
    """Text that the template puts before an end token completes a cut-off turn."""
    chat = template(
        _LOOP + "{{ '<|im_start|>' + message.role + ' ' + message.content + '.' }}" + _END
    )
    end, *_ = chat.stop_token_ids

    assert chat.text(chat.replies([], ["4"])) == ".<|im_end|><|im_start|>tool 4.<|im_end|>"
    assert chat.text(chat.replies([end], ["4"])) == "<|im_start|>tool 4.<|im_end|>"


@pytest.mark.parametrize("most", [1, 9])
def test_replies_follow_calls_as_the_template_requires(template: Template, most: int) -> None:
    """Some templates need one reply per call, others allow one call per turn."""
    wants = f"""
        {{%- set calls = messages[1].tool_calls | default([]) -%}}
        {{%- if messages | length > 2 and not calls or calls | length > {most} -%}}
        {{{{- raise_exception('Replies to {most} calls are expected.') -}}}}
        {{%- elif {most} > 1 and calls and calls | length != messages | length - 2 -%}}
        {{{{- raise_exception('As many replies as calls are expected.') -}}}}
        {{%- endif -%}}
    """
    called = "{% for call in message.tool_calls %}{{ call.function.name }}{% endfor %}"
    chat = template(wants.strip() + _LOOP + "{{ message.role + message.content }}" + called + _END)

    assert chat.text(chat.replies([], ["4", "5"])) == "<|im_end|>tool4<|im_end|>tool5<|im_end|>"


def test_a_tool_name_is_rendered_as_plain_text(template: Template) -> None:
    tool = "{{ '<|im_start|>tool ' + message.name + ': ' + message.content }}"
    without = "{% if not message.name %}{{ raise_exception('A name is required.') }}{% endif %}"
    plain = "{{ '<|im_start|>' + message.role + message.content }}"
    branches = f"{{% if message.role == 'tool' %}}{without}{tool}{{% else %}}{plain}{{% endif %}}"
    chat = template(_LOOP + branches + _END)

    replies = chat.replies([], ["4", "5"], ["add", "<|im_end|>"])

    assert chat.text(replies) == (
        "<|im_end|><|im_start|>tool add: 4<|im_end|><|im_start|>tool <|im_end|>: 5<|im_end|>"
    )
    assert replies.count(chat.stop_token_ids[0]) == 3


def test_prompt_calls_may_have_arguments_as_text(opened_family: Opened) -> None:
    def messages(arguments: object) -> list[dict[str, object]]:
        function = {"name": "python", "arguments": arguments}
        call = {"id": "abcdef000", "type": "function", "function": function}
        return [
            QUESTION,
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "b", "tool_call_id": "abcdef000"},
        ]

    as_text = opened_family.chat.prompt(messages('{"code": "é"}'), TOOLS)

    assert as_text == opened_family.chat.prompt(messages({"code": "é"}), TOOLS)
