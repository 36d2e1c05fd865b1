"""Families of chat models: how each writes conversations, calls and replies."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tests.support.chat_templates.tiny_tokenizers import byte_level, sentence_pieces

_FOLDER = Path(__file__).parent
_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QWEN_CALLS = ("<tool_call>", "</tool_call>")
_QWEN3_MARKS = (*_QWEN_CALLS, "<tool_response>", "</tool_response>", "<think>", "</think>")
_LLAMA = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
_MISTRAL = (
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
)

Call = dict[str, Any]
"""A call in the layout of messages: {id, type, function: {name, arguments}}."""


@dataclass(frozen=True)
class Family:
    """A family. ``calls`` writes calls as its models do; ``ends`` are the texts of the tokens that
    may end a turn, the template's own first."""

    name: str
    parser: str
    ends: tuple[str, ...]
    bos: str | None
    tokenizer: Callable[[], Tokenizer]
    calls: Callable[[list[Call]], str]

    def template(self) -> str:
        """Its chat template."""
        return (_FOLDER / f"{self.name}.jinja").read_text()

    def write(self, folder: Path) -> Path:
        """Put the files of a model of this family, but its weights, into a folder."""
        tokenizer = self.tokenizer()
        tokenizer.save(str(folder / "tokenizer.json"))
        ids = [tokenizer.token_to_id(text) for text in self.ends]
        named = {"eos_token": self.ends[0], **({"bos_token": self.bos} if self.bos else {})}
        config = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
        (folder / "chat_template.jinja").write_text(self.template())
        return folder


def _function(call: Call, arguments_key: str) -> str:
    function = call["function"]
    return json.dumps(
        {"name": function["name"], arguments_key: function["arguments"]}, ensure_ascii=False
    )


def _hermes(calls: list[Call]) -> str:
    return "\n".join(f"<tool_call>\n{_function(call, 'arguments')}\n</tool_call>" for call in calls)


def _llama(calls: list[Call]) -> str:
    return "; ".join(_function(call, "parameters") for call in calls)


def _mistral(calls: list[Call]) -> str:
    listed = [{**call["function"], "id": call["id"]} for call in calls]
    return "[TOOL_CALLS] " + json.dumps(listed, ensure_ascii=False)


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            "qwen2_5",
            "hermes",
            ("<|im_end|>", "<|endoftext|>"),
            None,
            lambda: byte_level(_CHATML, _QWEN_CALLS, digits=""),
            _hermes,
        ),
        Family(
            "qwen3",
            "hermes",
            ("<|im_end|>", "<|endoftext|>"),
            None,
            lambda: byte_level(_CHATML, _QWEN3_MARKS, digits=""),
            _hermes,
        ),
        Family(
            "llama3_1",
            "llama3-json",
            ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
            "<|begin_of_text|>",
            lambda: byte_level(_LLAMA, (), digits="{1,3}"),
            _llama,
        ),
        Family("mistral", "mistral", ("</s>",), "<s>", lambda: sentence_pieces(_MISTRAL), _mistral),
    )
}
