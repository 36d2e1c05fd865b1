"""A named template of LLaMA-Factory as a chat template, for use of the model elsewhere. Written for
LLaMA-Factory 0.9.5, whose own conversion supports only users and assistants, omits the end token of
templates that train it separately, and ignores empty thoughts.
"""

from collections.abc import Mapping
from typing import Any

from services.trainer.errors import TrainingFailure
from services.trainer.offline.library import llamafactory_module

_SETTINGS = ("default_system", "enable_thinking", "preserve_thinking", "tool_format")
_ASKED, _ANSWERED = {"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}
_SYSTEM = {"role": "system", "content": "Be brief."}
_PROBES = (
    [_ASKED, _ANSWERED],
    [_SYSTEM, _ASKED, _ANSWERED],
    [_ASKED, _ANSWERED, _ASKED, _ANSWERED],
    [_SYSTEM, {"role": "user", "content": " a\nb "}, {"role": "assistant", "content": " c\n"}],
)
_REFUSALS = (
    "{%- if tools %}{{ raise_exception('this template was trained without tools') }}{% endif -%}"
    "{%- for message in messages %}"
    "{%- if message.role not in ('system', 'user', 'assistant') or message.tool_calls %}"
    "{{ raise_exception('this template has no ' ~ ('tool calls' if message.tool_calls else "
    "'role ' ~ message.role)) }}{% endif %}{% endfor -%}"
)
"""What the converted template cannot render is refused instead of left out."""
_END = "{%- if messages[-1].role == 'assistant' %}{{ eos_token }}{% endif -%}"
"""The library trains one end token after the last answer of such a template."""


def chat_template_of(name: str, tokenizer: Any, arguments: Mapping[str, Any]) -> str:
    """The chat template that renders conversations as training with the named one does.

    ``tokenizer`` is the model's, which gets the template's special tokens; ``arguments`` are those
    of the training. Raises TrainingFailure for a template that cannot be converted: the ids that it
    renders to, of prompts too, are compared with the trained ones.
    """
    library = llamafactory_module("data.template")
    settings = {key: arguments[key] for key in _SETTINGS if key in arguments}
    data = llamafactory_module("hparams.data_args").DataArguments(template=name, **settings)
    template = library.get_template_and_fix_tokenizer(tokenizer, data)
    try:
        text = template._get_jinja_template(tokenizer)
    except ValueError as error:
        raise _unusable(name) from error
    text = _REFUSALS + text
    if template.efficient_eos:
        text += _END
    for messages in _PROBES:
        prompt, response = _trained(template, tokenizer, messages)
        if (
            _rendered(tokenizer, text, messages) != prompt + response
            or _rendered(tokenizer, text, messages[:-1], opening=True) != prompt
        ):
            raise _unusable(name)
    return str(text)


def refusing_template(reason: str) -> str:
    """A chat template that refuses every conversation with ``reason``."""
    quoted = reason.replace("\\", "\\\\").replace("'", "\\'")
    return f"{{{{ raise_exception('{quoted}') }}}}"


def _rendered(
    tokenizer: Any, template: str, messages: list[dict[str, str]], *, opening: bool = False
) -> list[int]:
    """The ids of a conversation as it is served."""
    text = tokenizer.apply_chat_template(
        messages, chat_template=template, tokenize=False, add_generation_prompt=opening
    )
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _trained(
    template: Any, tokenizer: Any, messages: list[dict[str, str]]
) -> tuple[list[int], list[int]]:
    """The ids that the library trains on: those before the last answer, and the answer."""
    has_system = messages[0]["role"] == "system"
    system = messages[0]["content"] if has_system else None
    prompt, response = template.encode_oneturn(tokenizer, messages[has_system:], system, "")
    end = [tokenizer.eos_token_id] if template.efficient_eos else []
    return list(prompt), [*response, *end]


def _unusable(name: str) -> TrainingFailure:
    return TrainingFailure(
        f"template {name} cannot be written as the chat template that conversations with the model "
        "need; train it without template",
        code="invalid_arguments",
        param="template",
    )
