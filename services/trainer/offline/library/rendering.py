"""What a named template of LLaMA-Factory makes of conversations, as text: for the report of what is
trained of a file's rows. Written for LLaMA-Factory 0.9.5.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from services.datasets.conversation import Conversation, Message, ToolCall
from services.datasets.record import RowError
from services.datasets.rendering.exchanges import ChatMessage, TemplateRenderer
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.rows.alternation import alternate

_SETTINGS = ("default_system", "enable_thinking", "preserve_thinking", "tool_format")
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "observation": "observation",
    "function_call": "function",
}


def library_renderer(
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    arguments: Mapping[str, Any],
    between_results: str,
    *,
    learns_turns: bool,
) -> TemplateRenderer:
    """A renderer whose text is that of the ids that the library trains on.

    ``tokenizer`` gets the template's special tokens. Rows of which every turn is learned
    (``learns_turns``) are encoded turn by turn, others as a prompt and its answer.
    """
    settings = {key: arguments[key] for key in _SETTINGS if key in arguments}
    data = llamafactory_module("hparams.data_args").DataArguments(template=name, **settings)
    template = llamafactory_module("data.template").get_template_and_fix_tokenizer(tokenizer, data)
    end = [tokenizer.eos_token_id] if template.efficient_eos else []

    def render(messages: list[ChatMessage], tools: list[dict[str, Any]], *, prompt: bool) -> str:
        conversation = Conversation(tuple(map(_message, messages)), tuple(tools))
        system, turns = alternate(conversation, between_results)
        library = [{"role": _ROLES[each["from"]], "content": each["value"]} for each in turns]
        listed = json.dumps(tools, ensure_ascii=False) if tools else ""
        if prompt:
            library.append({"role": "assistant", "content": ""})
        try:
            ids = _ids(template, tokenizer, library, system, listed, learns_turns=learns_turns)
        except Exception as error:  # the library's formatters may raise anything
            raise RowError(f"the template cannot show the conversation: {error}") from None
        return str(tokenizer.decode(ids[0] if prompt else [*ids[0], *ids[1], *end]))

    return render


def _ids(
    template: Any,
    tokenizer: PreTrainedTokenizerBase,
    turns: Sequence[Mapping[str, str]],
    system: str,
    tools: str,
    *,
    learns_turns: bool,
) -> tuple[list[int], list[int]]:
    """The ids before the last answer, and those of the answer."""
    if not learns_turns:
        before, answer = template.encode_oneturn(tokenizer, turns, system, tools)
        return list(before), list(answer)
    pairs = template.encode_multiturn(tokenizer, turns, system, tools)
    before = [token for pair in pairs[:-1] for part in pair for token in part]
    last, answer = pairs[-1]
    return [*before, *last], list(answer)


def _message(message: ChatMessage) -> Message:
    """A message as rows have it, from the form of chat templates."""
    calls = (each["function"] for each in message.get("tool_calls", ()))
    return Message(
        message["role"],
        message["content"] or "",
        reasoning=message.get("reasoning_content", ""),
        tool_calls=tuple(ToolCall(each["name"], each["arguments"]) for each in calls),
        learned=True,
    )
