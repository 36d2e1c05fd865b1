"""A named template of LLaMA-Factory as a chat template, with which the model is served. Written for
LLaMA-Factory 0.9.5, whose own conversion supports only users and assistants, omits the end token of
templates that train it separately, and ignores empty thoughts.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from services.contracts.base import JsonObject
from services.trainer.errors import TrainingFailure
from services.trainer.offline.library.internals import llamafactory_module

_SETTINGS = ("default_system", "enable_thinking", "preserve_thinking", "tool_format")
Probe = Sequence[JsonObject]
_ASKED, _ANSWERED = {"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}
_SYSTEM = {"role": "system", "content": "Be brief."}
_PROBES: tuple[Probe, ...] = (
    [_ASKED, _ANSWERED],
    [_SYSTEM, _ASKED, _ANSWERED],
    [_ASKED, _ANSWERED, _ASKED, _ANSWERED],
    [_SYSTEM, {"role": "user", "content": " a\nb "}, {"role": "assistant", "content": "c d"}],
)
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds.",
            "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
        },
    }
]
_CALLED = {"type": "function", "function": {"name": "add", "arguments": {"x": 1}}}
_WITH_TOOLS: tuple[Probe, ...] = (
    [
        _SYSTEM,
        _ASKED,
        {"role": "assistant", "content": "", "tool_calls": [_CALLED]},
        {"role": "tool", "content": "1"},
        _ANSWERED,
    ],
)
_NO_TOOLS = (
    "{%- if tools %}{{ raise_exception('trained without a way to write tools') }}{% endif -%}"
    "{%- for message in messages %}"
    "{%- if message.role not in ('system', 'user', 'assistant') or message.tool_calls %}"
    "{{ raise_exception('trained without a way to write ' ~ ('tool calls' if message.tool_calls "
    "else 'the role ' ~ message.role)) }}{% endif %}{% endfor -%}"
)
"""What a template does not render as it was trained is refused instead of left out."""
_END = "{%- if messages[-1].role == 'assistant' %}{{ eos_token }}{% endif -%}"
"""The library trains one end token after the last answer of such a template."""


def chat_template_of(
    name: str, tokenizer: Any, arguments: Mapping[str, Any], own: str | None = None
) -> str:
    """The chat template that renders conversations as training with the named one does.

    That is the model's ``own`` where it renders the same ids as the named one, else a converted
    one. ``tokenizer`` is the model's, which gets the template's special tokens; ``arguments`` are
    those of the training. Tools are refused where they would not be rendered as they are trained.
    Raises TrainingFailure for a template that cannot be converted: the ids that it renders to, of
    prompts too, are compared with the trained ones.
    """
    library = llamafactory_module("data.template")
    settings = {key: arguments[key] for key in _SETTINGS if key in arguments}
    data = llamafactory_module("hparams.data_args").DataArguments(template=name, **settings)
    template = library.get_template_and_fix_tokenizer(tokenizer, data)
    if own is not None and all(_is_rendered(template, tokenizer, own, each) for each in _PROBES):
        with_tools = all(_is_rendered(template, tokenizer, own, each) for each in _WITH_TOOLS)
        return own if with_tools else _NO_TOOLS + own
    try:
        text = _NO_TOOLS + template._get_jinja_template(tokenizer)
    except ValueError as error:
        raise _unusable(name) from error
    if template.efficient_eos:
        text += _END
    if not all(_is_rendered(template, tokenizer, text, each) for each in _PROBES):
        raise _unusable(name)
    return str(text)


def refusing_template(reason: str) -> str:
    """A chat template that refuses every conversation with ``reason``."""
    quoted = reason.replace("\\", "\\\\").replace("'", "\\'")
    return f"{{{{ raise_exception('{quoted}') }}}}"


def _is_rendered(template: Any, tokenizer: Any, text: str, probe: Probe) -> bool:
    """Whether a chat template gives a conversation, and the prompt for its last answer, the ids
    that the library trains on."""
    system = probe[0]["content"] if probe[0]["role"] == "system" else None
    turns = probe[system is not None :]
    tools = _TOOLS if any("tool_calls" in turn for turn in turns) else []
    listed = json.dumps(tools) if tools else ""
    prompt, response = template.encode_oneturn(
        tokenizer, [_library_turn(turn) for turn in turns], system, listed
    )
    end = [tokenizer.eos_token_id] if template.efficient_eos else []

    def ids(messages: Probe, *, opening: bool) -> list[int]:
        rendered = tokenizer.apply_chat_template(
            list(messages),
            tools=tools or None,
            chat_template=text,
            tokenize=False,
            add_generation_prompt=opening,
        )
        return list(tokenizer(rendered, add_special_tokens=False)["input_ids"])

    try:
        whole, opened = ids(probe, opening=False), ids(probe[:-1], opening=True)
    except TemplateError:
        return False
    return whole == [*prompt, *response, *end] and opened == prompt


def _library_turn(turn: JsonObject) -> JsonObject:
    """A message as the library's templates take it."""
    if calls := turn.get("tool_calls"):
        return {"role": "function", "content": json.dumps([call["function"] for call in calls])}
    roles = {"tool": "observation"}
    return {"role": roles.get(turn["role"], turn["role"]), "content": turn["content"]}


def _unusable(name: str) -> TrainingFailure:
    return TrainingFailure(
        f"template {name} cannot be written as the chat template that conversations with the model "
        "need; train it without template",
        code="invalid_arguments",
        param="template",
    )
