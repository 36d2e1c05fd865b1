"""Reads a model's tokenizer, chat templates and end tokens from its folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest


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


def read_chat_files(folder: Path) -> ChatFiles:
    """Read the files of a model; raises InvalidRequest naming the one at fault."""
    tokenizer = read_tokenizer(folder)
    template, tool_template = _templates(folder, _object(folder / "tokenizer_config.json"))
    return ChatFiles(
        tokenizer=tokenizer,
        template=template,
        tool_template=tool_template,
        special_tokens=read_special_tokens(folder),
        end_token_ids=(
            *_end_token_ids(folder / "generation_config.json"),
            *_end_token_ids(folder / "config.json"),
        ),
    )


def read_tokenizer(folder: Path) -> str:
    """The text of a model's tokenizer.json; raises InvalidRequest."""
    text = _text(folder / "tokenizer.json")
    if text is None:
        raise refused(
            f"{folder.name} has no tokenizer.json; save its tokenizer with a current "
            "transformers, which writes one"
        )
    return text


def read_special_tokens(folder: Path) -> dict[str, str]:
    """Names such as eos_token and their texts; raises InvalidRequest for a broken file."""
    named = _special_tokens(_object(folder / "special_tokens_map.json"))
    return {**named, **_special_tokens(_object(folder / "tokenizer_config.json"))}


def refused(message: str) -> InvalidRequest:
    """The error for a model that cannot be used for conversations."""
    return InvalidRequest(message, param="model")


def _templates(folder: Path, config: JsonObject) -> tuple[str, str]:
    """The default and the tool template; files take precedence over the configuration."""
    default = _text(folder / "chat_template.jinja")
    if default is not None:
        apart = _text(folder / "additional_chat_templates" / "tool_use.jinja")
        return default, apart if apart is not None else default
    given = config.get("chat_template") or _object(folder / "chat_template.json").get(
        "chat_template"
    )
    named = {"default": given} if isinstance(given, str) else _by_name(given)
    if "default" not in named:
        raise refused(
            f"{folder.name} has no chat template: neither chat_template.jinja nor one in "
            "tokenizer_config.json"
        )
    return named["default"], named.get("tool_use", named["default"])


def _by_name(templates: Any) -> dict[str, str]:
    """Named templates from a tokenizer's configuration."""
    if not isinstance(templates, list):
        return {}
    listed = [entry for entry in templates if isinstance(entry, dict)]
    return {
        entry["name"]: entry["template"]
        for entry in listed
        if isinstance(entry.get("name"), str) and isinstance(entry.get("template"), str)
    }


def _special_tokens(config: JsonObject) -> dict[str, str]:
    tokens = {}
    for key, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            tokens[key] = text
    return tokens


def _end_token_ids(path: Path) -> tuple[int, ...]:
    value = _object(path).get("eos_token_id")
    values = value if isinstance(value, list) else [value]
    return tuple(item for item in values if isinstance(item, int) and not isinstance(item, bool))


def _object(path: Path) -> JsonObject:
    """The JSON object in a file; empty if the file does not exist."""
    text = _text(path)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused(f"{path.name} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise refused(f"{path.name} is not a JSON object")
    return value


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise refused(f"{path.name} cannot be read: {error}") from None
