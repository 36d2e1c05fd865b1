"""Reads the files of a tokenizer: chat templates, named special tokens, tokens that end a turn."""

import json
import shutil
from pathlib import Path
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
GENERATION_CONFIG = "generation_config.json"
CHAT_TEMPLATE = "chat_template.jinja"
TOOL_TEMPLATE = "additional_chat_templates/tool_use.jinja"
DEFAULT, TOOL_USE = "default", "tool_use"
TOKENIZER_FILES = (
    *("added_tokens.json", CHAT_TEMPLATE, "chat_template.json", "merges.txt", SPECIAL_TOKENS),
    *(TOKENIZER, "tokenizer.model", TOKENIZER_CONFIG, TOOL_TEMPLATE, "vocab.json", "vocab.txt"),
)
"""What a tokenizer and its chat templates consist of; paths are relative to the model's folder."""


def refused(message: str) -> InvalidRequest:
    """The error for a model whose files cannot be used."""
    return InvalidRequest(message, param="model")


def read_chat_templates(folder: Path) -> dict[str, str]:
    """The chat templates by name: ``default``, and ``tool_use`` for conversations with tools.

    Empty for a model without any. Files take precedence over tokenizer_config.json, as in
    transformers. Raises InvalidRequest for a file that cannot be read.
    """
    default = read_text(folder / CHAT_TEMPLATE)
    if default is not None:
        apart = read_text(folder / TOOL_TEMPLATE)
        return {DEFAULT: default, TOOL_USE: default if apart is None else apart}
    given = read_object(folder / TOKENIZER_CONFIG).get("chat_template") or read_object(
        folder / "chat_template.json"
    ).get("chat_template")
    named = {DEFAULT: given} if isinstance(given, str) else _by_name(given)
    if DEFAULT not in named:
        return {}
    return {DEFAULT: named[DEFAULT], TOOL_USE: named.get(TOOL_USE, named[DEFAULT])}


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy a tokenizer and its chat templates as they stand, replacing those of ``target``."""
    for name in TOKENIZER_FILES:
        (target / name).unlink(missing_ok=True)
        if (source / name).is_file():
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, target / name)


def read_special_tokens(folder: Path) -> dict[str, str]:
    """Names such as eos_token and their texts; raises InvalidRequest for a broken file."""
    named = _special_tokens(read_object(folder / SPECIAL_TOKENS))
    return {**named, **_special_tokens(read_object(folder / TOKENIZER_CONFIG))}


def read_end_tokens(folder: Path) -> tuple[int, ...]:
    """The ids that end generation by generation_config.json or config.json."""
    files = (GENERATION_CONFIG, "config.json")
    found = [token for name in files for token in _end_tokens(read_object(folder / name))]
    return tuple(dict.fromkeys(found))


def read_object(path: Path) -> JsonObject:
    """The JSON object in a file; empty if the file does not exist. Raises InvalidRequest."""
    text = read_text(path)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused(f"{path.name} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise refused(f"{path.name} is not a JSON object")
    return value


def read_text(path: Path) -> str | None:
    """The text of a file; None if it does not exist. Raises InvalidRequest."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise refused(f"{path.name} cannot be read: {error}") from None


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


def _end_tokens(config: JsonObject) -> list[int]:
    value = config.get("eos_token_id")
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, int) and not isinstance(item, bool)]
