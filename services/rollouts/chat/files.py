"""Reads a model's tokenizer, chat templates and end tokens from its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.models.tokenizer_ids.files import (
    CHAT_TEMPLATE,
    DEFAULT,
    TOKENIZER,
    TOOL_USE,
    read_chat_templates,
    read_end_tokens,
    read_object,
    read_special_tokens,
    read_text,
    refused,
)

__all__ = [
    "ChatFiles",
    "read_chat_files",
    "read_special_texts",
    "read_special_tokens",
    "read_tokenizer",
    "refused",
]


@dataclass(frozen=True)
class ChatFiles:
    """The contents of the files.

    ``tokenizer`` is the text of tokenizer.json. ``tool_template`` is the template for
    conversations with tools, usually the same as ``template``. ``special_tokens`` maps names such
    as eos_token to texts. ``end_token_ids`` end generation by the model's configuration.
    """

    tokenizer: str
    template: str
    tool_template: str
    special_tokens: Mapping[str, str]
    end_token_ids: tuple[int, ...]


def read_chat_files(folder: Path, weights: Path | None = None) -> ChatFiles:
    """Read the files of a model; raises InvalidRequest naming the one at fault.

    ``weights`` is the folder of its weights where the tokenizer is in another, an adapter's: its
    end tokens count too.
    """
    tokenizer = read_tokenizer(folder)
    templates = read_chat_templates(folder)
    if not templates:
        raise refused(
            f"{folder.name} has no chat template: neither {CHAT_TEMPLATE} nor one in "
            "tokenizer_config.json"
        )
    ends = [*read_end_tokens(folder), *(read_end_tokens(weights) if weights else ())]
    return ChatFiles(
        tokenizer=tokenizer,
        template=templates[DEFAULT],
        tool_template=templates[TOOL_USE],
        special_tokens=read_special_tokens(folder),
        end_token_ids=tuple(dict.fromkeys(ends)),
    )


def read_tokenizer(folder: Path) -> str:
    """The text of a model's tokenizer.json; raises InvalidRequest."""
    text = read_text(folder / TOKENIZER)
    if text is None:
        raise refused(
            f"{folder.name} has no tokenizer.json; save its tokenizer with a current "
            "transformers, which writes one"
        )
    return text


def read_special_texts(folder: Path) -> frozenset[str]:
    """The texts of a model's special tokens; raises InvalidRequest."""
    added: Any = read_object(folder / TOKENIZER).get("added_tokens")
    special = {
        str(token["content"])
        for token in (added if isinstance(added, list) else ())
        if isinstance(token, dict) and token.get("special") and "content" in token
    }
    end = read_special_tokens(folder).get("eos_token")
    return frozenset(special | ({end} if end else set()))
