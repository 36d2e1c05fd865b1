"""Small chat templates of every kind of which published ones are known, with one tokenizer."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from tokenizers import Tokenizer

from services.contracts.errors import InvalidRequest
from services.datasets.record import RowError
from services.datasets.rendering.text_encoding import TokenizerEncoder
from services.rollouts.chat.template import ChatTemplate
from tests.support.chat_templates.tiny_tokenizers import byte_level

SPECIAL = ("<|start|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>")
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")

_CALLS = (
    "{% for call in m.tool_calls or [] %}<tool_call>\n"
    "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}\n"
    "</tool_call>{% endfor %}"
)
_THOUGHT = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}"
_HEAD = "<|start|>{{ m.role }}\n"
_PROMPT = "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"


def _looped(turn: str, prompt: str) -> str:
    return "{% for m in messages %}" + turn + "{% endfor %}" + prompt


KINDS: Mapping[str, str] = {
    "plain": _looped(_HEAD + _THOUGHT + "{{ m.content }}" + _CALLS + "<|end|>\n", _PROMPT),
    "thought opened by the prompt": _looped(
        _HEAD + "{{ m.content }}" + _CALLS + "<|end|>\n",
        "{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}",
    ),
    "reasoning of older turns dropped": _looped(
        _HEAD
        + "{% if loop.last and m.role == 'assistant' %}"
        + "<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
        + _CALLS
        + "<|end|>\n",
        _PROMPT,
    ),
    "headers written twice": _looped(
        "{% if m.content or m.reasoning_content %}"
        + _HEAD
        + _THOUGHT
        + "{{ m.content }}<|end|>\n{% endif %}"
        "{% if m.tool_calls %}" + _HEAD + _CALLS + "<|end|>\n{% endif %}",
        _PROMPT,
    ),
    "next role ends the turn": _looped(
        "<|{{ m.role }}|>\n{% if m.role == 'assistant' %}<think>"
        "{% if loop.last %}{{ m.reasoning_content }}{% endif %}</think>\n{% endif %}"
        "{{ m.content }}" + _CALLS,
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    ),
    "no special tokens": _looped(
        "### {{ m.role }}\n" + _THOUGHT + "{{ m.content }}" + _CALLS + "\n\n",
        "{% if add_generation_prompt %}### assistant\n{% endif %}",
    ),
    "arguments as text": _looped(
        _HEAD + _THOUGHT + "{{ m.content }}{% for call in m.tool_calls or [] %}"
        "{{ call.function.name + ': ' + call.function.arguments }}{% endfor %}<|end|>\n",
        _PROMPT,
    ),
}
"""Templates that leave out nothing but the reasoning of the second."""

WITHOUT_CALLS = _looped(_HEAD + "{{ m.content }}<|end|>\n", _PROMPT)
WITHOUT_CONTENT = _looped(_HEAD + "<|end|>\n", _PROMPT)


@cache
def tokenizer() -> Tokenizer:
    return byte_level(SPECIAL, MARKS, digits="")


@cache
def encoder() -> TokenizerEncoder:
    return TokenizerEncoder(tokenizer().to_str())


class Rendered:
    """A template that names its refusals as training does."""

    def __init__(self, source: str) -> None:
        self._template = ChatTemplate(source, {})

    def __call__(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        try:
            return self._template.render(messages, tools, opening=prompt)
        except InvalidRequest as error:
            raise RowError(error.message) from None
