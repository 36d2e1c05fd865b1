"""A named template of LLaMA-Factory as a chat template, for use of the model elsewhere. Written for
LLaMA-Factory 0.9.5, whose own conversion supports only users and assistants, omits the end token of
templates that train it separately, and ignores empty thoughts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.trainer.errors import TrainingFailure
from services.trainer.offline.library import llamafactory_module
from services.trainer.offline.preparation import load_tokenizer

_SETTINGS = ("default_system", "enable_thinking", "preserve_thinking", "tool_format")
_ASKED, _ANSWERED = {"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}
_SYSTEM = {"role": "system", "content": "Be brief."}
_PROBES = (
    [_ASKED, _ANSWERED],
    [_SYSTEM, _ASKED, _ANSWERED],
    [_ASKED, _ANSWERED, _ASKED, _ANSWERED],
)
_OTHER_ROLES = (
    "{% for message in messages %}{% if message.role not in ('system', 'user', 'assistant') %}"
    "{{ raise_exception('this template has no role ' ~ message.role) }}{% endif %}{% endfor %}"
)


def chat_template_of(
    name: str, model: Path, arguments: Mapping[str, Any], *, trusted: bool = False
) -> str:
    """The chat template that renders conversations as training with the named one does.

    ``arguments`` are those of the training; the tokenizer's own code may run where it is
    ``trusted``. Raises TrainingFailure for a template that cannot be converted: its rendering is
    compared with the trained tokens.
    """
    tokenizer: Any = load_tokenizer(model, trusted=trusted)
    library = llamafactory_module("data.template")
    settings = {key: arguments[key] for key in _SETTINGS if key in arguments}
    data = llamafactory_module("hparams.data_args").DataArguments(template=name, **settings)
    template = library.get_template_and_fix_tokenizer(tokenizer, data)
    try:
        text = template._get_jinja_template(tokenizer)
    except ValueError as error:
        raise _unusable(name) from error
    text = _OTHER_ROLES + text
    if template.efficient_eos:
        text += tokenizer.eos_token
    for messages in _PROBES:
        rendered = tokenizer.apply_chat_template(messages, chat_template=text, tokenize=False)
        token_ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
        if token_ids != _trained(template, tokenizer, messages):
            raise _unusable(name)
    return str(text)


def _trained(template: Any, tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """The tokens that the library trains on."""
    has_system = messages[0]["role"] == "system"
    system = messages[0]["content"] if has_system else None
    prompt, response = template.encode_oneturn(tokenizer, messages[has_system:], system, "")
    end = [tokenizer.eos_token_id] if template.efficient_eos else []
    return [*prompt, *response, *end]


def _unusable(name: str) -> TrainingFailure:
    return TrainingFailure(
        f"template {name} cannot be written as the chat template that the reward model needs to "
        "score conversations; train it without template",
        code="invalid_arguments",
        param="template",
    )
